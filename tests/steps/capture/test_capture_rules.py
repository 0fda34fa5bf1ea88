"""Examples of what each rule decides: what is split, what is one vertex, and what is refused."""

import pytest
import torch
import torch.nn.functional as F
from capture_models import MODELS, Net, captured, conv, linear
from torch import nn

from hyperplace.errors import ModelError, UsageError
from hyperplace.steps.capture import capture
from hyperplace.values.graph import Reads, Rule, Source


def wholes(graph):
    return {layer.kind for layer in graph.layers if layer.rule is Rule.WHOLE}


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("pixel_shuffle", {"pixel_shuffle"}),
        ("softmaxes", {"softmax"}),
        ("layer_norm", {"layer_norm"}),
        ("prelus", {"prelu"}),
        ("learned_scales", {"mul"}),
        ("weight_norm", {"conv2d"}),
        ("lstm", {"lstm"}),
        ("over_channels", {"mean", "transpose", "permute"}),
        ("linear_to_maps", {"unflatten"}),
    ],
)
def test_what_is_one_vertex_and_says_why(name, kinds):
    graph = captured(name)
    assert wholes(graph) == kinds
    for layer in graph.layers:
        assert bool(layer.reason) == (layer.rule is Rule.WHOLE)
        assert layer.rule is not Rule.WHOLE or layer.num_filters == 1


SPLIT = sorted(
    MODELS.keys()
    - {"pixel_shuffle", "softmaxes", "layer_norm", "prelus", "learned_scales", "weight_norm", "lstm", "attention"}
    - {"over_channels", "linear_to_maps", "several_operands", "batch_into_rows", "several_inputs_and_outputs"}
)


@pytest.mark.parametrize("name", SPLIT)
def test_everything_else_is_split(name):
    assert wholes(captured(name)) == set()


def test_trailing_operations_belong_to_their_layer():
    graph = captured("linear_after_flatten")
    assert [layer.name for layer in graph.layers] == ["inputs_0", "a", "b", "c"]
    assert graph["b"].operands[0].sources == (Source("a", 0, 6, 9),)


def test_rules_of_convolutions():
    graph = captured("depthwise")
    assert [(layer.rule, layer.groups) for layer in graph.layers[1:]] == [
        (Rule.CHANNELWISE, 1),
        (Rule.GROUPED, 4),
        (Rule.MIXING, 1),
    ]


def test_a_gate_over_space_is_read_by_all():
    gate, maps = captured("spatial_gate")["mul"].operands
    assert (gate.reads, gate.num_channels) == (Reads.ALL, 1)
    assert (maps.reads, maps.num_channels) == (Reads.SAME, 6)


def test_in_place_work_is_what_later_readers_read():
    graph = captured("in_place_then_read_again")
    assert graph["b"].operands[0].sources[0].layer == "a"
    assert graph["c"].operands[0].sources[0].layer != "a"


def test_layers_that_share_a_parameter_are_placed_whole():
    twice = capture(Net(lambda net, x: F.relu(net.a(net.a(x))), a=conv(4, 4)()), torch.randn(2, 4, 6, 6))
    tied = Net(lambda net, x: net.b(net.a(x)), a=linear(4, 4)(), b=linear(4, 4)())
    tied.b.weight = tied.a.weight
    for graph in (twice, capture(tied, torch.randn(2, 4))):
        whole = [layer for layer in graph.layers if layer.rule is Rule.WHOLE]
        assert whole
        assert all("several layers use its parameter" in layer.reason for layer in whole)


def test_modes_of_modules_are_kept():
    net = Net(lambda net, x: net.n(net.a(x)), a=conv(4, 4)(), n=nn.BatchNorm2d(4))
    net.n.eval()
    modes = [module.training for module in net.modules()]
    capture(net, torch.randn(2, 4, 6, 6))
    assert [module.training for module in net.modules()] == modes


@pytest.mark.parametrize(("mode", "learns"), [("frozen norm", False), ("evaluation", True), ("training", True)])
def test_a_norm_is_frozen_only_in_a_model_that_trains(mode, learns):
    net = Net(lambda net, x: net.n(net.a(x)), a=conv(4, 4)(), n=nn.BatchNorm2d(4))
    if mode == "evaluation":
        net.eval()
    if mode == "frozen norm":
        net.n.eval()
    (norm,) = [c for layer in capture(net, torch.randn(2, 4, 6, 6)).layers for c in layer.calls if "norm" in c.op]
    assert norm.args[5] is learns


def test_a_model_that_cannot_be_exported_is_a_model_error():
    def data_dependent(net, x):
        return x if x.sum() > 0 else -x

    with pytest.raises(ModelError, match=r"torch\.export cannot capture Net"):
        capture(Net(data_dependent), torch.randn(2, 4))


@pytest.mark.parametrize(
    ("sample", "message"),
    [((), "no batch"), (torch.tensor(1.0), "no batch"), ((torch.ones(2, 3), torch.ones(3, 3)), r"\[2, 3\]")],
)
def test_samples_without_one_batch_are_usage_errors(sample, message):
    with pytest.raises(UsageError, match=message):
        capture(Net(lambda net, *x: x[0]), sample)


def test_channels_in_networkx_sum_up():
    edges = captured("concat_with_itself").to_networkx().edges
    assert edges["a", "d"]["channels"] == 6
    assert edges["inputs_0", "a"]["channels"] == 4
