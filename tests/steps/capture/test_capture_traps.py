"""What models do that a walk over ATen calls gets wrong: writing into views, nested programs, odd ranks.

Each model here must either be captured truly (the Graph replayed gives the model's own outputs, and every filter reads
only what the Graph says) or be refused with a ModelError; never captured wrongly, never a crash.
"""

import pytest
import torch
import torch.nn.functional as F
from capture_models import add_model, conv, model
from graph_replay import claims, dependences, replay
from torch import nn
from torch.utils._pytree import tree_leaves

from hyperplace.errors import ModelError
from hyperplace.steps.capture import capture
from hyperplace.values.graph import Rule

TRAPS = {}


@add_model(models=TRAPS, a=conv(4, 8), b=conv(8, 8, groups=8))
def shuffle_with_contiguous(net, x):
    y = net.a(x).view(2, 2, 4, 6, 6).transpose(1, 2).contiguous()
    return net.b(y.view(2, 8, 6, 6))


@add_model(models=TRAPS, a=conv(4, 4), b=conv(4, 4, groups=4))
def slice_added_in_place(net, x):
    y = net.a(x)
    y[:, :2] += y[:, 2:]
    return net.b(y)


@add_model(models=TRAPS, a=conv(4, 4), b=conv(4, 4, groups=4))
def slices_filled(net, x):
    y = net.a(x)
    shifted = torch.zeros_like(y)
    shifted[:, :1] = y[:, 1:2]
    shifted[:, 1:] = y[:, :3]
    return net.b(shifted)


@add_model(models=TRAPS, a=conv(4, 4), b=conv(4, 4, groups=4))
def constant_filled(net, x):
    out = torch.zeros(2, 4, 6, 6, dtype=x.dtype)
    out[:, :2] = net.a(x)[:, 2:]
    return net.b(out)


@add_model(models=TRAPS, a=conv(4, 4), b=conv(2, 2), c=conv(4, 2))
def sliced_then_changed_in_place(net, x):
    y = net.a(x)
    half = y[:, :2]
    F.relu_(y)
    return net.b(half) + net.c(y)


@add_model(models=TRAPS, a=conv(4, 4), b=conv(4, 2))
def flattened_then_changed_in_place(net, x):
    y = net.a(x)
    flat = y.flatten(1)
    F.relu_(flat)
    return net.b(y), flat


@add_model(models=TRAPS, a=conv(4, 4), b=conv(2, 2))
def same_slice_twice(net, x):
    y = net.a(x)
    return net.b(y[:, :2] + y[:, :2])


@add_model(models=TRAPS, a=conv(4, 4), b=conv(2, 3))
def slice_from_before_the_first(net, x):
    return net.b(net.a(x)[:, -10:2])


@add_model((2, 4, 6), models=TRAPS, a=lambda: nn.Conv1d(4, 8, 1), b=lambda: nn.Conv1d(4, 2, 1))
def pool_over_channels(net, x):
    return net.b(F.max_pool2d(net.a(x), 2))


@add_model(models=TRAPS, a=conv(4, 4), s=lambda: nn.Buffer(torch.randn(1, 4, 1, 1)))
def computed_from_a_buffer(net, x):
    return net.a(x) * net.s.abs()


@add_model(models=TRAPS, a=lambda: nn.utils.parametrizations.spectral_norm(nn.Conv2d(4, 3, 1)))
def spectral_norm(net, x):
    return net.a(x)


@add_model(models=TRAPS, a=conv(4, 4))
def work_between_the_reshapes_of_a_shuffle(net, x):
    return F.relu(net.a(x).view(2, 2, 2, 6, 6).transpose(1, 2)).reshape(2, 4, 6, 6)


@add_model(models=TRAPS, a=conv(4, 4))
def half_a_shuffle_returned(net, x):
    return net.a(x).view(2, 2, 2, 6, 6).transpose(1, 2)


@add_model(models=TRAPS, a=conv(4, 4))
def masks_joined(net, x):
    y = net.a(x)
    positive, small = y > 0, y < 0.5
    both = positive & small
    return y * positive, y * both


@add_model(models=TRAPS, a=conv(4, 4), b=conv(4, 2))
def frozen_backbone(net, x):
    with torch.no_grad():
        y = F.relu(net.a(x))
    return net.b(y)


@add_model(models=TRAPS, a=conv(4, 4), b=conv(4, 2))
def under_autocast(net, x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = net.a(x)
    return net.b(y.to(x.dtype))


@pytest.mark.parametrize("name", TRAPS)
def test_trap(name):
    net, inputs = model(name, TRAPS)
    try:
        graph = capture(net, inputs)
    except ModelError:
        return
    expected = tree_leaves(net(*inputs))  # first: spectral norm changes its own buffers at every call
    net, _ = model(name, TRAPS)
    for output, wanted in zip(replay(graph, net, inputs), expected, strict=True):
        torch.testing.assert_close(output, wanted)
    for layer in graph.layers:
        if layer.rule in (Rule.INPUT, Rule.WHOLE):
            continue
        for operand, depends in zip(layer.operands, dependences(graph, net, layer), strict=True):
            assert not (depends & ~claims(layer, operand)).any(), f"{layer.name} reads more than stated"
