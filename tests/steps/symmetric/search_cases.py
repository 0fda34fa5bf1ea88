"""Searches of zoo models in little time, for all tests of the search."""

import sys
from functools import cache, partial

import pytest
import torch
from torch import nn

from hyperplace import search
from hyperplace.models import load_model
from hyperplace.search import Watch
from hyperplace.steps.capture import capture
from hyperplace.steps.profile.work import count_flops
from hyperplace.steps.symmetric import local
from hyperplace.values.layout import partition_of
from hyperplace.values.partition import is_feasible, volume_bytes, work_per_part
from hyperplace.values.plan import Settings

MIB = 2**20
BATCH = 32
LONG_SEARCH = local.search
CLI = (sys.executable, "-c", "from hyperplace.cli import main; main()")


@pytest.fixture(autouse=True)
def few_moves(monkeypatch):
    """What holds of all together holds with a short local search; how good a long one is stands in results/."""
    monkeypatch.setattr(local, "search", partial(local.search, num_moves=30_000, num_restarts=2))


@cache
def zoo(name):
    loaded = load_model(name, [(3, 64, 64)]) if name == "resnet18" else load_model(name)
    return graphed(loaded.module, loaded.sample)


def graphed(module, sample):
    graph = capture(module, sample)
    return graph, count_flops(graph, BATCH)


@cache
def tiny():
    with torch.device("meta"):
        module = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 8, 3), nn.ReLU(), nn.Conv2d(8, 4, 3))
        return graphed(module, torch.empty(2, 3, 16, 16))


def settings(k, partitioner="auto", imbalance=0.1, grain="coarse", fc="neurons", **more):
    return Settings(
        model="model",
        k=k,
        imbalance=imbalance,
        grain=grain,
        partitioner=partitioner,
        costs="flops",
        batch=BATCH,
        fc=fc,
        **more,
    )


def searched(model, asked, time_limit_s=30.0, on_progress=lambda text: None):
    """Search and check what every result must keep."""
    layout = search.search(*model, asked, Watch(time_limit_s, on_progress=on_progress))
    hypergraph = search.hypergraph_of(*model, layout, asked)
    found = partition_of(layout, hypergraph)
    volume = volume_bytes(hypergraph, found)
    if asked.partitioner in search.SYMMETRIC:
        assert is_feasible(work_per_part(hypergraph, found), asked.imbalance)
    assert layout.bound_bytes is None or layout.bound_bytes <= volume
    assert layout.num_parts == asked.k
    return hypergraph, found, volume


def is_balanced(layout, asked):
    hypergraph = search.hypergraph_of(*tiny(), layout, asked)
    return is_feasible(work_per_part(hypergraph, partition_of(layout, hypergraph)), asked.imbalance)
