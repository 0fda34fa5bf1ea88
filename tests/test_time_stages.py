"""Pipelines of stages are the best of all pipelines, and parts change devices where devices are not alike."""

from dataclasses import replace
from itertools import combinations, permutations

import numpy as np
import pytest
import torch
from torch import nn

from hyperplace import api, time_search
from hyperplace.planning import Clock, placed
from hyperplace.time_stages import staged_layouts
from hyperplace.time_swaps import swapped
from hyperplace.values.cluster import Cluster, Device, Host, parse_cluster
from hyperplace.values.plan import Settings

BATCH = 12


def model():
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 8, 3, padding=1), nn.Flatten(), nn.Linear(512, 64)
    )


def problem(num_parts):
    graph = api.capture(model(), torch.zeros(BATCH, 3, 8, 8))
    costs = api.profile(graph, costs="flops", batch=BATCH)
    words = {"grain": "hybrid", "partitioner": "auto", "costs": "flops", "batch": BATCH, "row_blocks": BATCH}
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
    for speeds in permutations((1, 0.5, 0.25)):
        place = cluster(speeds, 3e6)
        flow = api.FlowWish(in_flight=2)
        found.append(api.place_by_time(graph, costs, settings, place, flow, api.Watch(6.0)).best.seconds)
    assert max(found) <= 1.1 * min(found)
