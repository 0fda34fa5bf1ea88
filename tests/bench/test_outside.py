"""Torch's contenders learn what the plain loop learns, and pipelines are cut where the slowest stage is fastest."""

import math
import os
import subprocess
import sys
from itertools import combinations, pairwise
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from one_rank import CUTS, minibatches, net, sgd
from torch import nn
from torch.nn import functional

from hyperplace import api
from hyperplace.bench.outside import balanced_cuts, modules_in_a_row, stage_cuts
from hyperplace.bench.workers import _free_port
from hyperplace.training.learner import PlainLearner

LIMIT_S = 60


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Return where two ranks have written what they learnt, one way after the other."""
    folder, script = tmp_path_factory.mktemp("learnt"), Path(__file__).parent / "one_rank.py"
    words = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(_free_port()), "OMP_NUM_THREADS": "1"}
    ranks = [
        subprocess.Popen(
            [sys.executable, script, folder],
            env=os.environ | words | {"RANK": str(rank), "GLOO_SOCKET_IFNAME": "lo"},
        )
        for rank in range(2)
    ]
    try:
        assert [rank.wait(LIMIT_S) for rank in ranks] == [0, 0]
    finally:
        for rank in ranks:
            rank.kill()
    return folder


def learnt(folder: Path, way: str) -> list[dict]:
    return [torch.load(folder / f"{way}-{rank}.pt") for rank in range(2)]


def plain() -> tuple[list[float], dict[str, torch.Tensor]]:
    model = net()
    learner = PlainLearner(model, sgd(model.parameters()), functional.cross_entropy)
    return [learner.step(x, y).item() for x, y in minibatches()], model.state_dict()


def test_data_parallelism_is_the_plain_loop(folder) -> None:
    first, second = learnt(folder, "ddp")
    losses, state = plain()
    means = [float(a + b) / 2 for a, b in zip(first["losses"], second["losses"], strict=True)]
    assert means == pytest.approx(losses, rel=1e-5)
    for name, tensor in state.items():
        torch.testing.assert_close(first["model"][name], tensor)
        torch.testing.assert_close(second["model"][name], tensor)


@pytest.mark.parametrize("way", ["gpipe", "1f1b"])
def test_a_pipeline_is_the_plain_loop(folder, way) -> None:
    ranks = learnt(folder, way)
    losses, state = plain()
    assert ranks[0]["losses"] == [None] * 3
    assert [float(loss) for loss in ranks[1]["losses"]] == pytest.approx(losses, rel=1e-5)
    first_stage = [name for name, _ in list(modules_in_a_row(net()))[: CUTS[0]]]
    for name, tensor in state.items():
        owner = 0 if name.rpartition(".")[0] in first_stage else 1
        torch.testing.assert_close(ranks[owner]["model"][name], tensor)
        assert torch.equal(ranks[1 - owner]["model"][name], net().state_dict()[name]), (
            "the other one has not touched it"
        )


def test_modules_in_a_row_are_those_that_are_called() -> None:
    shared = nn.ReLU()
    model = nn.Sequential(
        nn.Sequential(nn.Linear(2, 2), shared), nn.Sequential(nn.Linear(2, 2), shared), nn.Linear(2, 2)
    )
    assert [name for name, _ in modules_in_a_row(model)] == ["0.0", "0.1", "1.0", "1.1", "2"]
    x, found = torch.randn(3, 2), None
    for _, module in modules_in_a_row(model):
        found = module(x if found is None else found)
    assert torch.equal(found, model(x))


stages = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), st.booleans()), min_size=1, max_size=7)


@settings(deadline=None)
@given(stages, st.integers(1, 4))
def test_the_cuts_are_the_best_of_all(modules, k) -> None:
    work, borders, learns = zip(*modules, strict=True)
    borders = borders[:-1]

    def dearest(cuts) -> float:
        ends = [0, *cuts, len(work)]
        around = [0, *borders, 0]
        stages = list(pairwise(ends))
        if not all(any(learns[a:b]) for a, b in stages):
            return math.inf
        border = {0: 0, len(work): 0} | {cut: around[cut] for cut in cuts}
        return max(sum(work[a:b]) + border[a] + border[b] for a, b in stages)

    best = min(map(dearest, combinations(range(1, len(work)), k - 1)), default=math.inf)
    found = balanced_cuts(work, borders, learns, k)
    assert (math.inf if found is None else dearest(found)) == best


def test_a_slow_network_moves_the_cut_behind_the_pooling() -> None:
    model = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(4), nn.Conv2d(8, 8, 3), nn.Flatten())
    sample = torch.zeros(2, 1, 16, 16)
    graph = api.capture(model, (sample,))
    costs = api.profile(graph, costs="measured", batch=4, use_cache=False)
    assert stage_cuts(model, sample, graph, costs, k=2, bits_per_s=1e3) == (3,)
    assert stage_cuts(nn.Flatten(), sample, graph, costs, k=2, bits_per_s=1e3) is None
    flops = api.profile(graph, costs="flops", batch=4)
    cuts = stage_cuts(model, sample, graph, flops, k=2, bits_per_s=1e3)
    assert cuts is not None
    assert 1 <= cuts[0] <= 3
