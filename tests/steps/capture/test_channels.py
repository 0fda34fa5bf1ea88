"""The channel rules are true: the Graph computes what the model computes, and its filters read what it says."""

import pytest
import torch
from capture_models import MODELS, captured, model
from graph_replay import claims, dependences, replay
from torch.utils._pytree import tree_leaves

from hyperplace.values.graph import Rule


def channels_of(operand):
    return [(s.layer, f) for s in operand.sources for f in range(s.start, s.stop) for _ in range(s.width)]


@pytest.mark.parametrize("name", MODELS)
def test_layers_together_compute_what_the_model_computes(name):
    net, inputs = model(name)
    expected = tree_leaves(net(*inputs))
    outputs = replay(captured(name), net, inputs)
    assert len(outputs) == len(expected)
    for output, wanted in zip(outputs, expected, strict=True):
        torch.testing.assert_close(output, wanted)


@pytest.mark.parametrize("name", MODELS)
def test_filters_read_exactly_the_channels_the_graph_says(name):
    net, _ = model(name)
    for layer in captured(name).layers:
        if layer.rule is Rule.INPUT or any(".gt." in call.op or ".where." in call.op for call in layer.calls):
            continue  # a comparison has no gradient
        for operand, depends in zip(layer.operands, dependences(captured(name), net, layer), strict=True):
            stated = claims(layer, operand)
            assert not (depends & ~stated).any(), f"{layer.name} reads more of {operand.value} than stated"
            if layer.rule is not Rule.WHOLE:
                assert torch.equal(depends, stated), f"{layer.name} reads less of {operand.value} than stated"


@pytest.mark.parametrize("name", MODELS)
def test_operands_fit_their_shapes(name):
    graph = captured(name)
    for layer in graph.layers:
        for operand in layer.operands:
            for source in operand.sources:
                assert 0 <= source.start < source.stop <= graph[source.layer].num_filters
            if layer.rule is not Rule.WHOLE:
                assert operand.num_channels == operand.shape[1], (layer.name, operand)
                assert len(channels_of(operand)) == operand.num_channels
