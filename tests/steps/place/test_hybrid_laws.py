"""Every hybrid plan of every zoo model: each cell owned once, every byte of training accounted for."""

from collections import Counter
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch
from brute_hybrid import cells_of, expected_activations, expected_replicas, training_bytes
from brute_place import filters_in, place_partition, same_work
from test_place_laws import graph_of
from torch import nn

from hyperplace.errors import HyperplaceError
from hyperplace.models import ZOO
from hyperplace.steps.build import build
from hyperplace.steps.capture import capture
from hyperplace.steps.profile.work import count_flops
from hyperplace.values.derived import differences
from hyperplace.values.partition import Partition, volume_bytes
from hyperplace.values.plan import Owner, Settings

BATCH, BLOCKS, ROW_BLOCKS = 5, 4, 3
FEW = ["lenet5", "vgg11_bn", "resnet18", "blocksnet"]


@cache
def hypergraph_of(name, fc="neurons"):
    graph = graph_of(name)
    return build(graph, count_flops(graph, BATCH), grain="hybrid", blocks=BLOCKS, row_blocks=ROW_BLOCKS, fc=fc)


def settings_of(name, k):
    return Settings(
        model=name,
        k=k,
        imbalance=0.1,
        grain="hybrid",
        partitioner="random",
        costs="flops",
        batch=BATCH,
        blocks=BLOCKS,
        row_blocks=ROW_BLOCKS,
    )


def random_partition(h, k):
    return Partition(np.random.default_rng(k).integers(0, k, h.num_vertices), k)


@pytest.mark.parametrize(
    ("name", "fc"), [*((name, "neurons") for name in ZOO), ("lenet5", "whole"), ("vgg11", "whole")]
)
def test_laws_of_a_hybrid_plan(name, fc):
    graph, h = graph_of(name), hypergraph_of(name, fc)
    for k in (2, 3) if name in FEW else (2,):
        partition = random_partition(h, k)
        plan = place_partition(graph, h, partition, settings_of(name, k))
        check(graph, h, partition, plan)


@pytest.mark.parametrize("name", ["vgg11_bn", "resnet18", "blocksnet"])
def test_batch_norms_that_keep_their_statistics_cost_nothing(name):
    exact, graph = graph_of(name), graph_of(name).without_statistics()
    profile = count_flops(graph, BATCH)
    h = build(graph, profile, grain="hybrid", blocks=BLOCKS, row_blocks=ROW_BLOCKS)
    partition = random_partition(h, 3)
    plan = place_partition(graph, h, partition, replace(settings_of(name, 3), batch_norm="per-shard"))
    check(graph, h, partition, plan)
    theirs = place_partition(exact, hypergraph_of(name), partition, settings_of(name, 3))
    assert {replica.statistics_bytes for replica in plan.replicas} == {0}
    assert [replace(replica, statistics_bytes=0) for replica in theirs.replicas] == list(plan.replicas)
    saved = theirs.metrics.training_volume_bytes - plan.metrics.training_volume_bytes
    assert saved == sum(4 * replica.statistics_bytes for replica in theirs.replicas) > 0


@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("tracks", [True, False])
@pytest.mark.parametrize("exchanges", [True, False])
def test_whatever_has_state_or_statistics_has_copies(affine, tracks, exchanges):
    """A batch norm that is a layer of its own, with and without parameters, buffers and messages."""

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.two = nn.Conv2d(1, 2, 1), nn.Conv2d(1, 2, 1)
            self.norm = nn.BatchNorm2d(4, affine=affine, track_running_stats=tracks)

        def forward(self, x):
            return self.norm(torch.cat([self.one(x), self.two(x)], 1))

    graph = capture(Net(), torch.zeros(BATCH, 1, 2, 2))
    graph = graph if exchanges else graph.without_statistics()
    h = build(graph, count_flops(graph, BATCH), grain="hybrid", blocks=BLOCKS, row_blocks=ROW_BLOCKS)
    starts = np.unique(h.labels.row_start)
    partition = Partition(np.searchsorted(starts, h.labels.row_start), ROW_BLOCKS)
    settings = replace(settings_of("net", ROW_BLOCKS), batch_norm="exact" if exchanges else "per-shard")
    plan = place_partition(graph, h, partition, settings)
    check(graph, h, partition, plan)
    norm = graph.layers[-1].name
    assert any(replica.layer == norm for replica in plan.replicas) == (affine or tracks or exchanges)


def check(graph, h, partition, plan):
    metrics = plan.metrics
    sent = Counter()
    for message in plan.transfers:
        sent[message.layer, message.source, message.target] += message.num_bytes
    assert sent == expected_activations(graph, plan)
    copies = {
        (r.layer, r.part, r.owner): [filters_in(r.filters), r.parameter_bytes, r.statistics_bytes]
        for r in plan.replicas
    }
    assert copies == expected_replicas(graph, plan)
    assert len(copies) == len(plan.replicas)
    assert metrics.training_volume_bytes == volume_bytes(h, partition) == training_bytes(graph, sent, copies)
    assert metrics.volume_bytes == sum(sent.values())
    assert sum(plan.moved_bytes.values()) == metrics.training_volume_bytes
    assert same_work(plan, h, partition)
    held = sum(part.parameter_bytes for part in metrics.parts)
    assert held == graph.parameter_bytes + sum(r.parameter_bytes for r in plan.replicas)
    check_pieces(plan)


def check_pieces(plan):
    """Messages carry cells of their source, and what a part owns of a layer are few rectangles, computed there."""
    cells = {layer.name: cells_of(layer, BATCH) for layer in plan.layers}
    for message in plan.transfers:
        owner = cells[message.layer]
        for start, stop in message.filters:
            assert np.all(owner[start:stop, message.rows[0] : message.rows[1]] == message.source)
    for layer in plan.layers:
        pieces = [(owner.part, owner.rows) for owner in layer.owners]
        assert len(set(pieces)) == len(pieces), "two pieces with the same rows could be one"
        if layer.shards:
            assert [(s.part, s.filters, s.rows) for s in layer.shards] == [
                (o.part, o.filters, o.rows) for o in layer.owners
            ]


@pytest.mark.parametrize("name", FEW)
def test_one_part_moves_nothing(name):
    h = hypergraph_of(name)
    plan = place_partition(graph_of(name), h, Partition(np.zeros(h.num_vertices), 1), settings_of(name, 1))
    assert (plan.transfers, plan.replicas) == ((), ())
    assert plan.metrics.training_volume_bytes == 0
    assert all(len(layer.owners) == 1 for layer in plan.layers)


@pytest.mark.parametrize("name", FEW)
def test_all_rows_together_is_the_coarse_plan_counted_twice(name):
    graph, profile = graph_of(name), count_flops(graph_of(name), BATCH)
    coarse = build(graph, profile, grain="coarse", blocks=BLOCKS)
    one_row_block = build(graph, profile, grain="hybrid", blocks=BLOCKS, row_blocks=1)
    partition = random_partition(coarse, 3)
    settings = settings_of(name, 3)
    ours = place_partition(graph, one_row_block, partition, settings)
    theirs = place_partition(graph, coarse, partition, replace(settings, grain="coarse"))
    assert (ours.layers, ours.transfers, ours.replicas) == (theirs.layers, theirs.transfers, ())
    assert ours.metrics.training_volume_bytes == theirs.metrics.training_volume_bytes
    assert ours.metrics.volume_bytes == theirs.metrics.volume_bytes


@pytest.mark.parametrize("name", FEW)
def test_all_rows_apart_is_data_parallelism(name):
    graph, h = graph_of(name), hypergraph_of(name)
    starts = np.unique(h.labels.row_start[h.labels.row_start >= 0])
    partition = Partition(np.searchsorted(starts, np.maximum(h.labels.row_start, 0)), ROW_BLOCKS)
    plan = place_partition(graph, h, partition, settings_of(name, ROW_BLOCKS))
    assert plan.transfers == ()
    assert sum(2 * r.parameter_bytes for r in plan.replicas) == plan.metrics.data_parallel_bytes
    assert all(len(layer.owners) == ROW_BLOCKS for layer in plan.layers)


def test_broken_replicas_are_told_by_name():
    graph, h = graph_of("lenet5"), hypergraph_of("lenet5")
    plan = place_partition(graph, h, random_partition(h, 3), settings_of("lenet5", 3))
    first, *others = plan.replicas
    for change, text in (
        ({"layer": "gone"}, "the replica of gone on part"),
        ({"parameter_bytes": 1}, "parameter_bytes is 1 instead of"),
        ({"part": first.owner}, f"on part {first.owner} with owner {first.owner}"),
        ({"filters": ((0, 10**6),)}, "(filters 0:1000000) must not be there"),
        ({"filters": first.filters[::-1] * 2}, "must not be there"),
    ):
        assert text in " ".join(differences(replace(plan, replicas=(replace(first, **change), *others))))
    assert differences(replace(plan, replicas=tuple(others)))[0].endswith("is missing")
    assert len(differences(replace(plan, replicas=()))) == len(plan.replicas)


def test_only_the_hybrid_grain_splits_rows():
    graph, h = graph_of("lenet5"), hypergraph_of("lenet5")
    plan = place_partition(graph, h, random_partition(h, 2), settings_of("lenet5", 2))
    with pytest.raises(HyperplaceError, match="only the hybrid grain splits rows"):
        replace(plan, settings=replace(plan.settings, grain="coarse"))
    whole, *others = plan.layers
    torn = replace(whole, owners=(Owner(0, ((0, whole.num_filters),), (0, 2)),))
    with pytest.raises(HyperplaceError, match="has 0 owners"):
        replace(plan, layers=(torn, *others))
