"""The hybrid search: never worse than what it starts from, balanced, repeatable, and laid out as it counted."""

from dataclasses import replace
from functools import cache, partial

import numpy as np
import pytest
import torch
from torch import nn

from hyperplace.errors import BalanceError, UsageError
from hyperplace.models import ZOO, load_model
from hyperplace.search import Watch, hypergraph_of, search
from hyperplace.search.candidate import judged
from hyperplace.search.problem import Problem
from hyperplace.steps.build import build, build_hybrid_runs
from hyperplace.steps.capture import capture
from hyperplace.steps.place import place
from hyperplace.steps.profile.work import count_flops
from hyperplace.steps.symmetric import hybrid_local, local
from hyperplace.steps.symmetric.hybrid_arrange import arrange_modes
from hyperplace.values.layout import Layout, Plane, layout_of
from hyperplace.values.modes import ModeShares, modes_volume
from hyperplace.values.partition import Partition, volume_bytes
from hyperplace.values.plan import Settings

BATCH = 8


@pytest.fixture(autouse=True)
def _few_moves(monkeypatch):
    monkeypatch.setattr(hybrid_local, "MOST_MOVES", 20_000)
    monkeypatch.setattr(hybrid_local, "ALL_MOVES", 160_000)
    monkeypatch.setattr(local, "search", partial(local.search, num_moves=30_000, num_restarts=2))


@cache
def graph_of(name):
    side = {"lenet5": 32, "blocksnet": 16}.get(name, 32)
    loaded = load_model(name, [(ZOO[name].input_shape[0], side, side)])
    return capture(loaded.module, loaded.sample)


def settings_of(name, k, partitioner="auto", imbalance=0.2):
    return Settings(
        model=name,
        k=k,
        imbalance=imbalance,
        grain="hybrid",
        partitioner=partitioner,
        costs="flops",
        batch=BATCH,
        blocks=16,
    )


def random_modes(hybrid, num_parts, seed):
    random = np.random.default_rng(seed)
    by_rows = random.integers(0, 2, len(hybrid.splits_rows)) * hybrid.splits_rows
    lines = [random.multinomial(n, random.dirichlet(np.full(num_parts, 0.5))) for n in hybrid.units(by_rows)]
    solid = (hybrid.runs.is_solid == 1) & (by_rows == 0)
    counts = np.array(lines)
    counts[solid] = hybrid.runs.sizes[solid][:, None] * np.eye(num_parts, dtype=np.int64)[0]
    return ModeShares(counts, by_rows, "random")


@pytest.mark.parametrize("name", ["lenet5", "vgg11_bn", "resnet18", "blocksnet"])
@pytest.mark.parametrize("seed", range(3))
def test_shares_lie_as_they_are_counted(name, seed):
    """In a chain exactly; where branches join a layout may need more, never less."""
    graph, profile = graph_of(name), count_flops(graph_of(name), BATCH)
    hybrid = build_hybrid_runs(graph, profile)
    shares = random_modes(hybrid, 3, seed)
    problem = Problem(graph, profile, settings_of(name, 3))
    found = judged(problem, arrange_modes(hybrid, shares))
    counted = modes_volume(hybrid, shares)
    if name in ("lenet5", "vgg11_bn"):
        assert found.volume_bytes == pytest.approx(counted, abs=1)
    assert found.volume_bytes >= counted - 1
    plan = place(graph, profile, found.layout, settings_of(name, 3))
    assert plan.metrics.training_volume_bytes == found.volume_bytes


@pytest.mark.parametrize("name", ["lenet5", "vgg11_bn", "resnet18", "blocksnet"])
@pytest.mark.parametrize("k", [2, 3])
def test_never_worse_than_what_there_is_at_the_same_balance(name, k):
    graph, profile, settings = graph_of(name), count_flops(graph_of(name), BATCH), settings_of(name, k)
    layout = search(graph, profile, settings, Watch(2))
    plan = place(graph, profile, layout, settings)
    assert plan.metrics.feasible
    assert layout.bound_bytes is None or layout.bound_bytes <= plan.metrics.training_volume_bytes
    coarse = ("layerwise", "incremental", "horizontal", "kahypar", "local", "auto")
    for grain, partitioner in (("hybrid", "dataparallel"), *(("coarse", other) for other in coarse)):
        given = replace(settings, grain=grain, partitioner=partitioner)
        metrics = place(graph, profile, search(graph, profile, given, Watch(1)), given).metrics
        if metrics.feasible:
            assert plan.metrics.training_volume_bytes <= metrics.training_volume_bytes, partitioner


def test_same_seed_same_result():
    graph, profile, settings = (
        graph_of("lenet5"),
        count_flops(graph_of("lenet5"), BATCH),
        settings_of("lenet5", 3, "local"),
    )
    assert search(graph, profile, settings) == search(graph, profile, settings)


def test_it_takes_a_coarse_placement_and_never_falls_behind_it():
    graph, profile, settings = (
        graph_of("lenet5"),
        count_flops(graph_of("lenet5"), BATCH),
        settings_of("lenet5", 2, "local"),
    )
    given = replace(settings, grain="coarse", partitioner="kahypar")
    coarse = search(graph, profile, given)
    found = search(graph, profile, settings, coarse=coarse)
    ours, theirs = (place(graph, profile, *asked).metrics for asked in ((found, settings), (coarse, given)))
    assert ours.training_volume_bytes <= theirs.training_volume_bytes


def test_a_layer_cut_both_ways_may_move_less_than_the_bound_which_says_so():
    """One convolution on four parts: by rows three copies of the weights, by filters three of the input."""
    graph = capture(nn.Conv2d(8, 8, 1, bias=False), torch.zeros(BATCH, 8, 1, 2))
    profile, settings = count_flops(graph, BATCH), settings_of("conv", 4, "exact", 0.0)
    found = search(graph, profile, settings)
    plan = place(graph, profile, found, settings)
    assert plan.metrics.training_volume_bytes == plan.metrics.bound_bytes == 3 * 512
    assert plan.metrics.verdict == "optimal among placements that split each layer one way (proven)"
    four = Plane(np.array([0, 4, 8]), np.array([0, BATCH // 2, BATCH]), np.array([[0, 1], [2, 3]]))
    both = judged(Problem(graph, profile, settings), Layout({layer.name: four for layer in graph.layers}, 4))
    assert (both.volume_bytes, both.is_feasible) == (2 * 512, True)


def test_one_part_moves_nothing():
    graph, profile = graph_of("lenet5"), count_flops(graph_of("lenet5"), BATCH)
    layout = search(graph, profile, settings_of("lenet5", 1))
    plan = place(graph, profile, layout, settings_of("lenet5", 1))
    assert plan.metrics.training_volume_bytes == layout.bound_bytes == 0


def test_data_parallelism_is_a_plan():
    graph, profile, settings = (
        graph_of("resnet18"),
        count_flops(graph_of("resnet18"), BATCH),
        settings_of("resnet18", 4, "dataparallel"),
    )
    plan = place(graph, profile, search(graph, profile, settings), settings)
    assert plan.transfers == ()
    assert sum(2 * replica.parameter_bytes for replica in plan.replicas) == plan.metrics.data_parallel_bytes
    assert plan.metrics.max_over_avg == pytest.approx(1)
    with pytest.raises(UsageError, match="--grain hybrid"):
        search(graph, profile, replace(settings, grain="coarse"))


def test_general_partitioners_take_it():
    graph, profile, settings = (
        graph_of("lenet5"),
        count_flops(graph_of("lenet5"), BATCH),
        settings_of("lenet5", 2, "kahypar"),
    )
    layout = search(graph, profile, settings)
    hypergraph = hypergraph_of(graph, profile, layout, settings)
    assert np.unique(hypergraph.labels.row_start).tolist() == list(range(BATCH))
    assert place(graph, profile, layout, settings).metrics.feasible


def test_what_cannot_be_balanced_is_said():
    graph = graph_of("lenet5")
    with pytest.raises(BalanceError, match="raise --imbalance or lower --k"):
        search(graph, count_flops(graph, 1), replace(settings_of("lenet5", 2, "local", 0.0), batch=1, fc="whole"))


def test_hybrid_hypergraphs_of_one_row_block_cost_the_coarse_training_volume():
    graph, profile = graph_of("resnet18"), count_flops(graph_of("resnet18"), BATCH)
    coarse, hybrid = (build(graph, profile, grain=grain, blocks=4, row_blocks=1) for grain in ("coarse", "hybrid"))
    found = Partition(np.random.default_rng(0).integers(0, 3, coarse.num_vertices), 3)
    settings = replace(settings_of("resnet18", 3), grain="coarse")
    plan = place(graph, profile, layout_of(coarse, found, BATCH), settings)
    assert volume_bytes(hybrid, found) == plan.metrics.training_volume_bytes
