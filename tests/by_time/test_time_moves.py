"""What is tried for its time: rows up to a border and filters after, and steps that change one layer each."""

from dataclasses import replace

import torch
from torch import nn

from hyperplace import api
from hyperplace.by_time.moves import Splits, neighbours
from hyperplace.planning import Clock, placed
from hyperplace.values.cluster import parse_cluster
from hyperplace.values.plan import Settings

MODEL = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 256, 64))
SETTINGS = Settings(model="m", k=2, imbalance=1.0, grain="hybrid", partitioner="auto", costs="flops", batch=8)


def problem():
    graph = api.capture(MODEL, torch.zeros(8, 3, 16, 16))
    costs = api.profile(graph, costs="flops", batch=8)
    return graph, costs, Splits.of(graph, costs, SETTINGS, (1.0, 1.0))


def test_a_border_takes_rows_before_it_and_filters_after():
    _, _, splits = problem()
    layers = list(splits.by_rows.owners)
    assert splits.num_borders == len(layers) + 1
    for border in range(splits.num_borders):
        made = splits.with_border(border).owners
        for number, layer in enumerate(layers):
            kind = splits.by_rows if number < border else splits.by_filters
            assert made[layer] == kind.owners[layer]


def test_a_step_changes_one_layer():
    graph, costs, splits = problem()
    made = placed(graph, costs, splits.with_border(2), SETTINGS, Clock())
    seen = list(neighbours(made, splits))
    for layout in seen:
        differing = [layer for layer, plane in layout.owners.items() if plane != made.layout.owners[layer]]
        assert len(differing) == 1
    assert splits.with_border(1) in [replace(one, found_by=splits.with_border(1).found_by) for one in seen]


def test_sync_loses_least_by_rows_first():
    """One weight for each of many positions, then many weights for few: neither rows nor filters alone are as fast."""
    graph, costs, splits = problem()
    slow = parse_cluster("2x1@1gbit")
    cluster = replace(slow, hosts=tuple(_with_flops(host) for host in slow.hosts))
    seconds = []
    for border in (0, 2, splits.num_borders - 1):
        plan = placed(graph, costs, splits.with_border(border), SETTINGS, Clock()).plan
        seconds.append(api.forecast(graph, costs, plan, cluster, api.FlowWish("sync")).seconds)
    assert seconds[1] < min(seconds[0], seconds[2])
    best = api.place_by_time(graph, costs, SETTINGS, cluster, api.FlowWish("sync"), api.Watch(5.0)).best
    assert best.seconds <= seconds[1]


def _with_flops(host):
    return replace(host, devices=tuple(replace(device, flops_per_s=1e9) for device in host.devices))
