"""Every plan of every zoo model: each filter owned once, each product computed once, each byte accounted for."""

import sys
from collections import Counter
from functools import cache

import numpy as np
import pytest
from brute_place import (
    connectivity_volume,
    expected_messages,
    pairs_computed,
    pairs_read,
    parts_of_filters,
    place_partition,
    planned_messages,
    same_work,
)

from hyperplace.models import ZOO, load_model
from hyperplace.steps.build import build
from hyperplace.steps.capture import capture
from hyperplace.steps.place import place
from hyperplace.steps.profile.work import count_flops
from hyperplace.values.layout import layout_of
from hyperplace.values.partition import Partition
from hyperplace.values.plan import Settings
from hyperplace.values.profile import LayerCost, Profile, Work

BATCH = 3
SIDES = {"lenet5": 32, "alexnet": 67, "googlenet": 32, "blocksnet": 16, "smallcnn": 28}
BLOCKS = {"coarse": 7, "fine": 4}


@cache
def graph_of(name):
    entry = ZOO[name]
    side = SIDES.get(name, 32)
    loaded = load_model(name, [(entry.input_shape[0], side, side)])
    return capture(loaded.module, loaded.sample)


@cache
def hypergraph_of(name, grain, fc="neurons"):
    graph = graph_of(name)
    return build(graph, count_flops(graph, BATCH), grain=grain, blocks=BLOCKS[grain], fc=fc)


def partition_of(h, k, how):
    if how == "random":
        return Partition(np.random.default_rng(k).integers(0, k, h.num_vertices), k)
    return Partition(np.minimum(np.arange(h.num_vertices) * k // h.num_vertices, k - 1), k)


def settings_of(name, grain, k):
    return Settings(
        model=name,
        k=k,
        imbalance=0.1,
        grain=grain,
        partitioner="random",
        costs="flops",
        batch=BATCH,
        blocks=BLOCKS[grain],
    )


CASES = [(2, "random"), (7, "contiguous"), (3, "contiguous"), (4, "random")]
SMALL = {"lenet5", "alexnet", "vgg11", "resnet18", "blocksnet"}  # all cases in both grains; larger ones share them


def cases_of(name, grain):
    if name in SMALL:
        return CASES
    cases = CASES[:2] if grain == "coarse" else CASES[2:]
    return cases[1:] if name == "resnet101" else cases


@pytest.mark.parametrize("grain", ["coarse", "fine"])
@pytest.mark.parametrize("name", ZOO)
def test_laws_of_a_plan(name, grain):
    graph, h = graph_of(name), hypergraph_of(name, grain)
    for k, how in cases_of(name, grain):
        partition = partition_of(h, k, how)
        plan = place_partition(graph, h, partition, settings_of(name, grain, k))
        check_shards(graph, plan, grain)
        check_messages(graph, plan, grain)
        check_metrics(graph, h, partition, plan)


def check_shards(graph, plan, grain):
    for layer, planned in zip(graph.layers, plan.layers, strict=True):
        owner = parts_of_filters(planned)
        assert owner == planned.owner_of.tolist()
        if layer.operands:
            read = pairs_read(layer, layer.operands[0])
            assert np.array_equal(pairs_computed(layer, planned)[read], np.ones(read.sum())), layer.name
        if not (grain == "fine" and layer.sums_channels):
            assert {(s.part, s.filters) for s in planned.shards} <= {(o.part, o.filters) for o in planned.owners}


def check_messages(graph, plan, grain):
    expected = expected_messages(graph, plan, lambda layer: grain == "fine" and layer.sums_channels)
    assert planned_messages(plan) == expected
    owner = {layer.name: layer.owner_of for layer in plan.layers}
    for message in plan.transfers:
        for start, stop in message.filters:
            assert np.all(owner[message.layer][start:stop] == message.source)
    for message in plan.reductions:
        for start, stop in message.filters:
            assert np.all(owner[message.layer][start:stop] == message.target)


def check_metrics(graph, h, partition, plan):
    volume, of_input = connectivity_volume(h, partition.part_of)
    metrics = plan.metrics
    assert metrics.volume_bytes == volume == sum(planned_messages(plan).values())
    assert metrics.training_volume_bytes == 2 * volume - of_input
    assert same_work(plan, h, partition)
    assert sum(part.parameter_bytes for part in metrics.parts) == graph.parameter_bytes
    assert sum(part.sent_bytes for part in metrics.parts) == volume
    assert sum(part.received_bytes for part in metrics.parts) == volume
    messages = len(plan.transfers) + len(plan.reductions)
    assert sum(p.num_sent for p in metrics.parts) == sum(p.num_received for p in metrics.parts) == messages


@pytest.mark.parametrize("grain", ["coarse", "fine"])
@pytest.mark.parametrize("name", ["lenet5", "vgg11", "resnet18", "mobilenet_v2", "blocksnet"])
def test_one_part_moves_nothing(name, grain):
    h = hypergraph_of(name, grain)
    plan = place_partition(graph_of(name), h, partition_of(h, 1, "random"), settings_of(name, grain, 1))
    assert (plan.transfers, plan.reductions) == ((), ())
    assert plan.metrics.volume_bytes == plan.metrics.training_volume_bytes == 0
    assert plan.metrics.max_over_avg == 1
    assert all(len(layer.owners) == 1 for layer in plan.layers)


@pytest.mark.parametrize("grain", ["coarse", "fine"])
@pytest.mark.parametrize("name", ["lenet5", "vgg11", "resnet18", "mobilenet_v2", "blocksnet"])
def test_exchange_moves_no_byte_and_no_filter_between_parts(name, grain, monkeypatch):
    graph, h = graph_of(name), hypergraph_of(name, grain)
    partition = partition_of(h, 3, "random")
    with monkeypatch.context() as patch:
        patch.setattr(sys.modules[place.__module__], "exchange", lambda graph, found: None)
        before = place_partition(graph, h, partition, settings_of(name, grain, 3))
    plan = place_partition(graph, h, partition, settings_of(name, grain, 3))
    assert plan != before
    assert bytes_by_route(plan.transfers) == bytes_by_route(before.transfers)
    assert bytes_by_route(plan.reductions) == bytes_by_route(before.reductions)
    for layer, other in zip(plan.layers, before.layers, strict=True):
        assert Counter(layer.owner_of.tolist()) == Counter(other.owner_of.tolist())
    same = place_partition(graph, h, partition, settings_of(name, grain, 3))
    assert plan == same


def bytes_by_route(messages):
    return {(m.layer, m.source, m.target): m.num_bytes for m in messages}


@pytest.mark.parametrize("name", ["lenet5", "vgg16", "vgg11_bn"])
def test_parts_of_a_chain_own_one_range_each(name):
    h = hypergraph_of(name, "coarse")
    for k in (2, 7):
        plan = place_partition(graph_of(name), h, partition_of(h, k, "random"), settings_of(name, "coarse", k))
        assert all(len(owner.filters) == 1 for layer in plan.layers for owner in layer.owners)


@pytest.mark.parametrize("name", ["lenet5", "vgg11", "blocksnet"])
@pytest.mark.parametrize("grain", ["coarse", "fine"])
def test_laws_hold_with_whole_linears(name, grain):
    graph, h = graph_of(name), hypergraph_of(name, grain, "whole")
    partition = partition_of(h, 4, "random")
    plan = place_partition(graph, h, partition, settings_of(name, grain, 4))
    split = [layer.name for layer in graph.layers if grain == "fine" and layer.sums_channels]
    expected = expected_messages(graph, plan, lambda layer: layer.name in split and layer.kind != "linear")
    assert planned_messages(plan) == expected
    assert all(len(layer.owners) == 1 for layer in plan.layers if layer.kind == "linear")
    check_metrics(graph, h, partition, plan)


def measured_profile(graph):
    """Return made-up costs, of which each layer's filters, kernels and tails have passes of their own."""
    draw = np.random.default_rng(0).uniform
    costs = [LayerCost(layer.name, *(Work(*draw(1, 9, 3)) for _ in range(3))) for layer in graph.layers]
    return Profile("measured", "us", BATCH, tuple(costs))


@pytest.mark.parametrize("fc", ["neurons", "whole"])
@pytest.mark.parametrize("grain", ["coarse", "fine", "hybrid"])
def test_planned_passes_are_the_profiles_and_add_up_to_the_weights(grain, fc):
    graph, profile = graph_of("blocksnet"), measured_profile(graph_of("blocksnet"))
    h = build(graph, profile, grain=grain, blocks=4, fc=fc)
    settings = Settings(
        model="blocksnet",
        k=3,
        imbalance=0.1,
        grain=grain,
        partitioner="random",
        costs="measured",
        batch=BATCH,
        blocks=4,
        fc=fc,
    )
    plan = place(graph, profile, layout_of(h, partition_of(h, 3, "random"), BATCH), settings)
    units = [float(unit.split()[0]) for unit in (plan.metrics.work_unit, h.work_unit)]
    for number, layer in enumerate(plan.layers):
        own, cost = h.labels.layer_of == number, profile[layer.name]
        is_kernel = h.labels.channel_start >= 0
        like = cost.tail if (own & is_kernel).any() else cost.filter
        check_passes(layer.work, h.weights[own & ~is_kernel], like, units)
        check_passes(layer.kernel_work, h.weights[own & is_kernel], cost.kernel, units)


def check_passes(work, weights, like, units):
    assert work.total * units[0] == pytest.approx(weights.sum() * units[1], abs=len(weights) * max(units))
    for name in ("forward", "backward", "update"):
        assert getattr(work, name) == pytest.approx(work.total * getattr(like, name) / like.total, abs=1)
