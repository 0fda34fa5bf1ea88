"""The sample of the thesis (Figure 3.5) and VGG16, whose sizes it reports."""

import dataclasses
import time
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from hyperplace.errors import UsageError
from hyperplace.files.hypergraph import patoh_text
from hyperplace.models import load_model
from hyperplace.steps.build import build
from hyperplace.steps.capture import capture
from hyperplace.steps.profile.work import count_flops

FIGURE_3_5 = (Path(__file__).parents[2] / "figure_3_5.patoh").read_text()


def sample_network():
    return nn.Sequential(
        *(nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(4, 3, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(3, 2, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()),
        *(nn.Linear(8, 10), nn.ReLU(), nn.Linear(10, 8), nn.ReLU(), nn.Linear(8, 4)),
    )


def test_sample_of_the_thesis_to_the_character():
    graph = capture(sample_network(), torch.randn(2, 1, 16, 16))
    h = build(graph, count_flops(graph, 1), blocks=None, fc="whole")
    lines = [[int(x) for x in line.split()] for line in FIGURE_3_5.splitlines()]
    assert (h.num_vertices, h.num_nets, h.num_pins) == (13, 12, 38)
    assert [h.net(n).tolist() for n in range(h.num_nets)] == [line[1:] for line in lines[1:-1]]
    as_drawn = dataclasses.replace(h, weights=lines[-1], costs=[line[0] for line in lines[1:-1]], work_unit="")
    assert patoh_text(as_drawn) == FIGURE_3_5


@cache
def vgg16():
    loaded = load_model("vgg16")
    return capture(loaded.module, loaded.sample)


def test_vgg16_has_4224_filters():
    h = build(vgg16(), count_flops(vgg16(), 32), blocks=None, fc="whole")
    kinds = np.array([layer.kind for layer in vgg16().layers])[h.labels.layer_of]
    assert [(kinds == kind).sum() for kind in ("input", "conv2d", "linear")] == [3, 4224, 3]
    assert h.num_vertices == 3 + 4224 + 3


def test_vgg16_fine_has_a_kernel_per_pair_and_is_built_in_seconds():
    start = time.process_time()
    h = build(vgg16(), count_flops(vgg16(), 32), grain="fine", blocks=None, fc="whole")
    convs = [layer for layer in vgg16().layers if layer.kind == "conv2d"]
    kernels = sum(layer.num_filters * layer.operands[0].num_channels for layer in convs)
    assert kernels == 1_634_496
    assert h.num_vertices == kernels + 4224 + 3 + 3
    assert time.process_time() - start < 20


def test_costs_are_maps_after_pooling_for_the_batch():
    h = build(vgg16(), count_flops(vgg16(), 32), blocks=None, fc="whole")
    first_of = {layer: h.costs[np.argmax(h.labels.net_layer == n)] for n, layer in enumerate(h.labels.layers)}
    assert first_of["features.0"] == 32 * 4 * 224 * 224
    assert first_of["features.2"] == 32 * 4 * 112 * 112


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"grain": "medium"}, "grain 'medium' is unknown; choose one of coarse, fine"),
        ({"fc": "half"}, "fc 'half' is unknown; choose one of neurons, whole"),
        ({"blocks": 0}, "blocks 0 is less than 1"),
        ({"blocks": -3}, "blocks -3 is less than 1"),
    ],
)
def test_unknown_options_are_usage_errors(options, message):
    with pytest.raises(UsageError, match=message):
        build(vgg16(), count_flops(vgg16(), 1), **options)


def test_a_profile_of_another_model_is_refused():
    graph = capture(sample_network(), torch.randn(2, 1, 16, 16))
    with pytest.raises(UsageError, match=r"the profile has no layer"):
        build(graph, count_flops(vgg16(), 1))
