"""Parameters, multiply-adds and bytes against torch's own numbers."""

import pytest
import torch
from capture_models import MODELS, captured, model
from torch.utils.flop_counter import FlopCounterMode

from hyperplace.models import load_model
from hyperplace.steps.capture import capture
from hyperplace.values.graph import Rule

ZOO = {
    "lenet5": None,
    "vgg16": (3, 64, 64),
    "resnet50": (3, 32, 32),
    "googlenet": (3, 32, 32),
    "mobilenet_v2": (3, 32, 32),
    "blocksnet": (3, 16, 16),
}


def forward_macs(module, inputs):
    with FlopCounterMode(display=False) as counter:
        module(*inputs)
    return counter.get_total_flops() // 2


def num_trained(module):
    return sum(p.numel() for p in module.parameters() if p.requires_grad)


@pytest.mark.parametrize("name", MODELS)
def test_small_models_count_as_torch_counts(name):
    net, inputs = model(name)
    graph = captured(name)
    assert sum(layer.macs for layer in graph.layers) * graph.rows == forward_macs(net, inputs)
    assert graph.num_parameters == num_trained(net)
    assert graph.parameter_bytes == 8 * num_trained(net)
    assert sum(layer.parameter_bytes for layer in graph.layers) == graph.parameter_bytes


@pytest.mark.parametrize("name", ZOO)
def test_zoo_models_count_as_torch_counts(name):
    loaded = load_model(name, [ZOO[name]] if ZOO[name] else None)
    graph = capture(loaded.module, loaded.sample)
    assert sum(layer.macs for layer in graph.layers) * graph.rows == forward_macs(loaded.module, loaded.sample)
    assert graph.num_parameters == num_trained(loaded.module)
    assert not [layer.name for layer in graph.layers if layer.rule is Rule.WHOLE]


def test_vgg16_at_its_own_size():
    loaded = load_model("vgg16")
    graph = capture(loaded.module, loaded.sample)
    assert graph.num_parameters == 138_357_544
    assert sum(layer.macs for layer in graph.layers) == 15_470_264_320  # 15.47 G, as published


def test_map_bytes_are_after_pooling_and_partial_bytes_before():
    loaded = load_model("vgg16", [(3, 64, 64)])
    graph = capture(loaded.module, loaded.sample)
    convs = [layer for layer in graph.layers if layer.kind == "conv2d"]
    sides = [64, 64, 32, 32, 16, 16, 16, 8, 8, 8, 4, 4, 4]
    pooled = {1, 3, 6, 9, 12}
    for number, (layer, side) in enumerate(zip(convs, sides, strict=True)):
        assert layer.partial_bytes == 4 * side**2
        assert layer.map_bytes == 4 * side**2 // (4 if number in pooled else 1)


@pytest.mark.parametrize("name", MODELS)
def test_outputs_have_the_bytes_of_their_layers(name):
    """Where an output is a layer's own, its tensor's bytes are map_bytes x filters x rows."""
    graph = captured(name)
    for operand in graph.outputs:
        (source, *more) = operand.sources
        layer = graph[source.layer]
        if not more and (source.start, source.stop) == (0, layer.num_filters) and layer.kind != "lstm":
            size = torch.empty(operand.shape, dtype=torch.float64, device="meta").nbytes
            assert layer.map_bytes * layer.num_filters * graph.rows + layer.fixed_bytes == size
