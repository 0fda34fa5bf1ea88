"""Counted profiles: every number by its formula, to the last bit, so that hypergraphs do not hang on passes."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from profile_models import ODD, SLICED

from hyperplace.steps.build import build
from hyperplace.steps.build.runs import build_runs
from hyperplace.steps.profile.work import analytic, count_flops
from hyperplace.values.profile import LayerCost, Work

BATCH = 7
GRAPHS = {**ODD, **SLICED}


@given(st.floats(0, 1e18))
def test_a_third_is_forward_and_the_total_is_exact(work):
    passes = analytic(work)
    assert passes.total == work
    assert passes.forward == pytest.approx(work / 3)
    assert passes.update == 0


def whole_cost(layer):
    """Return the layer's cost as one number each: 6 FLOPs a row for every multiply-add."""
    work = 6 * layer.macs * BATCH
    kernels = layer.operands[0].num_channels // layer.groups if layer.sums_channels else 1
    return LayerCost(layer.name, Work(work / layer.num_filters), Work(work / (layer.num_filters * kernels)))


@pytest.mark.parametrize("name", GRAPHS)
def test_totals_and_weights_are_those_of_one_number(name):
    graph = GRAPHS[name]()
    profile = count_flops(graph, BATCH)
    whole = replace(profile, layers=tuple(whole_cost(layer) for layer in graph.layers))
    for found, wanted in zip(profile.layers, whole.layers, strict=True):
        assert (found.filter_work, found.kernel_work, found.tail) == (wanted.filter_work, wanted.kernel_work, Work())
    for grain in ("coarse", "fine", "hybrid"):
        assert build(graph, profile, grain=grain) == build(graph, whole, grain=grain)
    assert np.array_equal(build_runs(graph, profile).work, build_runs(graph, whole).work)
