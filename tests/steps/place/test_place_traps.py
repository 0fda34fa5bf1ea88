"""Graphs whose blocks do not line up with what is read: any model that is captured can be placed, exactly."""

from functools import cache
from itertools import product

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from brute_place import (
    connectivity_volume,
    expected_messages,
    pairs_computed,
    pairs_read,
    place_partition,
    planned_messages,
)
from torch import nn

from hyperplace.errors import UsageError
from hyperplace.steps.build import build
from hyperplace.steps.capture import capture
from hyperplace.steps.profile.work import count_flops
from hyperplace.values.partition import Partition
from hyperplace.values.plan import Settings


class Net(nn.Module):
    def __init__(self, function, **members):
        super().__init__()
        self.function = function
        for name, member in members.items():
            setattr(self, name, member)

    def forward(self, x):
        return self.function(self, x)


def _two_heads(net, x):
    mean, deviation = net.a(x.flatten(1)).chunk(2, 1)
    return net.b(mean), net.c(deviation)


def _residual_linears(net, x):
    y = net.a(x.flatten(1))
    return net.c(F.relu(net.b(y)) + y)


def _wide_gate(net, x):
    return net.a(x).flatten(1) * net.b(x.flatten(1))


def _keywords(net, x):
    return F.conv2d(input=x, weight=net.a.weight, bias=net.a.bias)


MODELS = {
    "two_heads": lambda: Net(_two_heads, a=nn.Linear(48, 8), b=nn.Linear(4, 4), c=nn.Linear(4, 4)),
    "residual_linears": lambda: Net(_residual_linears, a=nn.Linear(48, 8), b=nn.Linear(8, 8), c=nn.Linear(8, 2)),
    "wide_gate": lambda: Net(_wide_gate, a=nn.Conv2d(3, 6, 1, stride=2), b=nn.Linear(48, 24)),
    "whole_then_grouped": lambda: Net(
        lambda n, x: n.b(n.a(x).softmax(1)), a=nn.Conv2d(3, 4, 1), b=nn.Conv2d(4, 4, 1, groups=2)
    ),
    "group_within_a_filter": lambda: Net(
        lambda n, x: n.b(n.a(x).reshape(-1, 12, 4)), a=nn.Conv2d(3, 3, 1), b=nn.Conv1d(12, 4, 1, groups=2)
    ),
    "keywords": lambda: Net(_keywords, a=nn.Conv2d(3, 4, 1)),
}


@cache
def graph_of(name):
    return capture(MODELS[name](), torch.randn(2, 3, 4, 4))


def placed(name, grain, blocks, fc, k=3, seed=0):
    graph = graph_of(name)
    h = build(graph, count_flops(graph, 2), grain=grain, blocks=blocks, fc=fc)
    partition = Partition(np.random.default_rng(seed).integers(0, k, h.num_vertices), k)
    settings = Settings(model=name, k=k, imbalance=0.1, grain=grain, partitioner="random", costs="flops", batch=2)
    return graph, h, partition, place_partition(graph, h, partition, settings)


@pytest.mark.parametrize("fc", ["neurons", "whole"])
@pytest.mark.parametrize("grain", ["coarse", "fine"])
@pytest.mark.parametrize("name", MODELS)
def test_whatever_is_captured_can_be_placed(name, grain, fc):
    for seed, blocks in product(range(4), (None, 2, 3, 4, 64)):
        graph, h, partition, plan = placed(name, grain, blocks, fc, seed=seed)
        split = {
            layer.name
            for layer in graph.layers
            if grain == "fine" and layer.sums_channels and not (fc == "whole" and layer.kind == "linear")
        }
        expected = expected_messages(graph, plan, lambda layer, split=split: layer.name in split)
        assert planned_messages(plan) == expected
        assert plan.metrics.volume_bytes == connectivity_volume(h, partition.part_of)[0]
        for layer, planned in zip(graph.layers, plan.layers, strict=True):
            if layer.operands:
                read = pairs_read(layer, layer.operands[0])
                assert np.all(pairs_computed(layer, planned)[read] == 1)
        macs = sum(layer.macs for layer in graph.layers)
        assert h.total_weight * float(h.work_unit.split()[0]) == pytest.approx(6 * macs * 2)


def test_a_partition_of_another_hypergraph_is_refused():
    graph, h, _, plan = placed("keywords", "coarse", None, "neurons")
    with pytest.raises(UsageError, match=rf"the partition has 2 vertices, the hypergraph {h.num_vertices}"):
        place_partition(graph, h, Partition([0, 0], 3), plan.settings)


def test_a_partition_into_another_number_of_parts_is_refused():
    graph, h, _, plan = placed("keywords", "coarse", None, "neurons")
    with pytest.raises(UsageError, match="k=3"):
        place_partition(graph, h, Partition(np.zeros(h.num_vertices), 2), plan.settings)
