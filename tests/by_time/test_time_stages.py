"""Pipelines of stages are the best of all pipelines, and parts change devices where devices are not alike."""

from dataclasses import replace
from itertools import combinations, pairwise

import numpy as np
import pytest
import torch
from torch import nn

from hyperplace import api
from hyperplace.by_time import search as time_search
from hyperplace.by_time.stages import _cards, staged_layouts
from hyperplace.by_time.swaps import swapped
from hyperplace.planning import Clock, placed
from hyperplace.values.cluster import Cluster, Device, Host, parse_cluster
from hyperplace.values.plan import Settings

BATCH = 12


def model(num_outputs):
    convolutions = nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 8, 3, padding=1)
    return nn.Sequential(*convolutions, nn.Flatten(), nn.Linear(512, num_outputs))


def problem(num_parts, num_outputs=64, batch=BATCH):
    graph = api.capture(model(num_outputs), torch.zeros(batch, 3, 8, 8))
    costs = api.profile(graph, costs="flops", batch=batch)
    words = {"grain": "hybrid", "partitioner": "auto", "costs": "flops", "batch": batch, "row_blocks": batch}
    return graph, costs, Settings(model="m", k=num_parts, imbalance=float(num_parts), **words)


def cluster(speeds, rate):
    return Cluster(tuple(Host(f"h{n}", (Device(speed=s, flops_per_s=1e9),), rate, rate) for n, s in enumerate(speeds)))


def all_stages(num_layers, num_parts):
    """Yield every way to cut layers and devices, in order, into as many runs of both; not all devices need be used."""
    for used in range(1, num_parts + 1):
        for count in range(1, min(used, num_layers) + 1):
            for cuts in combinations(range(1, num_layers), count - 1):
                for edges in combinations(range(1, used), count - 1):
                    layers, devices = (0, *cuts, num_layers), (0, *edges, used)
                    yield [(*layers[n : n + 2], *devices[n : n + 2]) for n in range(count)]


def slowest(graph, costs, speeds, rate, stages):
    """Return the time of the slowest stage, worked out layer by layer on hosts with one device each."""
    names = [layer.name for layer in graph.layers]
    readers = {name: [] for name in names}
    for layer in graph.layers:
        for operand in layer.operands:
            for source in operand.sources:
                readers[source.layer].append(names.index(layer.name))
    taken = []
    for first, end, begin, stop in stages:
        inside = graph.layers[first:end]
        width = stop - begin
        work = sum(costs[layer.name].filter_work * layer.num_filters for layer in inside)
        copied = sum(layer.parameter_bytes for layer in inside) * 2 * (width - 1) / width / rate
        crossing = 0.0
        for n, layer in enumerate(graph.layers):
            out = layer.map_bytes * layer.num_filters * BATCH * (1 if layer.name in graph.learning else 0.5)
            for edge in (first, end):
                crossing += out if n < edge and any(reader >= edge for reader in readers[layer.name]) else 0.0
        taken.append(max(work / 1e9 / sum(speeds[begin:stop]), copied + crossing / (rate * width)))
    return max(taken)


def stages_of(graph, layout):
    """Return the stages of a layout: layers from and to, devices from and to."""
    found = []
    for n, layer in enumerate(graph.layers):
        parts = layout.owners[layer.name].parts
        own = int(parts.min()), int(parts.max()) + 1
        if found and found[-1][2:] == own:
            found[-1] = (found[-1][0], n + 1, *own)
        else:
            found.append((n, n + 1, *own))
    return found


@pytest.mark.parametrize("rate", [1e5, 1e7, 1e9])
@pytest.mark.parametrize("speeds", [(1, 1, 1), (1, 0.5, 0.25), (0.2, 1, 1, 1)])
def test_no_pipeline_has_a_faster_slowest_stage(speeds, rate):
    graph, costs, settings = problem(len(speeds))
    found = [layout for _, layout in staged_layouts(graph, costs, settings, cluster(speeds, rate))]
    everything = list(all_stages(len(graph.layers), len(speeds)))
    best = min(everything, key=lambda stages: slowest(graph, costs, speeds, rate, stages))
    least = slowest(graph, costs, speeds, rate, best)
    assert len(best) == 1 or any(
        slowest(graph, costs, speeds, rate, stages_of(graph, layout)) <= least * (1 + 1e-9) for layout in found
    )


def test_rows_of_a_stage_are_shared_by_speed_and_what_is_laid_out_runs():
    graph, costs, settings = problem(3)
    place = cluster((1, 0.5, 1), 1e7)
    names = []
    for name, layout in staged_layouts(graph, costs, settings, place):
        names.append(name)
        plan = placed(graph, costs, layout, settings, Clock()).plan
        assert api.forecast(graph, costs, plan, place).seconds > 0
        for first, _, begin, stop in stages_of(graph, layout):
            plane = layout.owners[graph.layers[first].name]
            if (begin, stop) == (0, 2):
                assert np.diff(plane.columns).tolist() == [8, 4]
    assert "2-1" in names, "all devices but one by rows, then one for the rest, is always among them"


def two_by_two(rate):
    devices = (Device(flops_per_s=1e9),) * 2
    return Cluster(tuple(Host(name, devices, rate, rate) for name in "ab"))


def test_devices_near_the_last_stage_have_more_rows_where_a_card_binds():
    graph, costs, settings = problem(4)
    first = graph.layers[0].name
    found = list(staged_layouts(graph, costs, settings, two_by_two(3e6)))
    pairs = [(one, other) for (_, one), (name, other) in pairwise(found) if name == "3-1 near"]
    gains = []
    for equal, near in pairs:
        assert stages_of(graph, near) == stages_of(graph, equal)
        assert np.diff(equal.owners[first].columns).tolist() == [4, 4, 4]
        rows = dict(zip(near.owners[first].parts[0].tolist(), np.diff(near.owners[first].columns), strict=True))
        assert rows[2] > 4, "part 2 is on the host of part 3, which has the rest"
        plans = [placed(graph, costs, layout, settings, Clock()).plan for layout in (equal, near)]
        before, after = (api.forecast(graph, costs, plan, two_by_two(3e6)).seconds for plan in plans)
        gains.append(before / after)
    assert len(gains) > 1
    assert min(gains) > 1
    assert max(gains) > 1.5
    assert not [name for name, _ in staged_layouts(graph, costs, settings, two_by_two(1e12)) if "near" in name]
    assert not [name for name, _ in staged_layouts(graph, costs, settings, cluster((1,) * 4, 3e6)) if "near" in name]


def test_a_device_with_time_left_after_the_last_stage_shares_the_first():
    graph, costs, settings = problem(4, num_outputs=8, batch=48)
    place = two_by_two(1e12)
    found = list(staged_layouts(graph, costs, settings, place))
    gains = []
    for (_, equal), (name, shared) in pairwise(found):
        if name == "3-1 sharing":
            plane = shared.owners[graph.layers[0].name]
            rows = dict(zip(plane.parts[0].tolist(), np.diff(plane.columns), strict=True))
            assert 0 < rows.get(3, 0) < rows[0]
            plans = [placed(graph, costs, layout, settings, Clock()).plan for layout in (equal, shared)]
            before, after = (api.forecast(graph, costs, plan, place).seconds for plan in plans)
            gains.append(before / after)
    assert max(gains) > 1.05


def all_pairs_bytes(homes, weights):
    """Return what comes through the busiest card for some bytes of weights, worked out from owner to owner."""
    coming = dict.fromkeys(homes, 0.0)
    for owner in homes:
        for host in set(homes) - {owner}:
            coming[owner] += weights / len(homes)  # a sum of gradients of what it owns
            coming[host] += weights / len(homes)  # and what becomes of it
    return max(coming.values())


@pytest.mark.parametrize("homes", [(0, 0, 1, 1), (0, 0, 0, 1), (0, 1, 2, 2), (0, 0), (0, 1, 2, 3)], ids=str)
def test_stages_know_what_cards_carry_by_relays(homes):
    hosts = [Host(str(n), (Device(),) * homes.count(n), 4.0, 4.0) for n in sorted(set(homes))]
    copy_s, _ = _cards(Cluster(tuple(hosts)), range(len(homes)))
    assert copy_s == pytest.approx(all_pairs_bytes(homes, 1.0) / 4.0)


def test_one_device_and_fewer_rows_than_devices_have_no_stages():
    graph, costs, settings = problem(1)
    assert not list(staged_layouts(graph, costs, settings, cluster((1,), 1e6)))
    graph, costs, settings = problem(13)
    assert not list(staged_layouts(graph, costs, settings, cluster((1,) * 13, 1e6)))


def test_the_part_with_most_work_goes_to_the_fastest_device_and_like_devices_are_left_alone():
    part_of = np.array([0, 0, 0, 1, 2])
    first, *others = swapped(part_of, cluster((0.5, 1, 2), 1e6), [1.0, 0.1, 0.1])
    assert first.tolist() == [2, 2, 2, 0, 1], "busy all the time at half speed is the most work"
    assert [1, 1, 1, 0, 2] in [one.tolist() for one in others]
    assert not list(swapped(part_of, parse_cluster("3x1@1gbit"), [1.0, 0.5, 0.5]))
    assert not list(swapped(part_of, parse_cluster("1x3"), [1.0, 0.5, 0.5]))
    assert len(list(swapped(part_of, parse_cluster("2x2@1gbit"), [1.0, 0.5, 0.5]))) == 2, "a part on another host"


def test_in_whatever_order_the_devices_come_the_plan_is_as_fast(monkeypatch):
    monkeypatch.setattr(time_search, "FEW", 0)
    graph, costs, settings = problem(3)
    settings = replace(settings, grain="coarse", row_blocks=1)
    found = []
    for speeds in ((1, 0.5, 0.25), (0.25, 0.5, 1), (0.5, 1, 0.25)):
        place = cluster(speeds, 3e6)
        flow = api.FlowWish(in_flight=2)
        found.append(api.place_by_time(graph, costs, settings, place, flow, api.Watch(6.0)).best.seconds)
    assert max(found) <= 1.1 * min(found)
