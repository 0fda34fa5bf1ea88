"""A batch norm whose rows several parts have equals one that sees them all."""

import pytest
import torch
from torch.nn import functional as F

from hyperplace.runtime import Part, joint, normalise, statistics, track

SHAPES = {"2-d": (10, 3), "4-d": (10, 3, 2, 5)}
CUTS = {"even": (5, 5), "uneven": (1, 7, 2), "empty": (0, 6, 0, 4), "whole": (10,)}
MOMENTUM, EPS = 0.3, 1e-5


def draw(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def leaves_of(shape, affine):
    x = draw(*shape).mul_(2).add_(1).requires_grad_()
    pair = [draw(3, seed=1).requires_grad_(), draw(3, seed=2).requires_grad_()] if affine else [None, None]
    return x, *pair


def split_norm(x, weight, bias, running, rows, training):
    """Return the outputs of all pieces; every part tracks statistics of its own."""
    pieces = x.split(list(rows))
    total = joint([statistics(piece) for piece in pieces], rows)
    outputs = []
    for piece, (mean, variance) in zip(pieces, running, strict=True):
        part = Part()
        part.training = training
        if mean is not None:
            count = sum(rows) * x[0, 0].numel()
            track(total, part, mean=mean, variance=variance, momentum=MOMENTUM, count=count)
        outputs.append(normalise(piece, total, part, eps=EPS, weight=weight, bias=bias, mean=mean, variance=variance))
    assert [len(output) for output in outputs] == list(rows)
    return torch.cat(outputs)


def close(one, other):
    return torch.allclose(one, other, rtol=0, atol=1e-10)


@pytest.mark.parametrize("tracked", [True, False])
@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("rows", CUTS.values(), ids=CUTS)
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_pieces_are_normed_as_the_whole(shape, rows, training, affine, tracked):
    start = (draw(3, seed=3), draw(3, seed=4).abs()) if tracked else (None, None)
    whole_running = [tensor.clone() if tracked else None for tensor in start]
    running = [[tensor.clone() if tracked else None for tensor in start] for _ in rows]
    whole, pieces = leaves_of(shape, affine), leaves_of(shape, affine)
    wanted = F.batch_norm(
        whole[0], *whole_running, *whole[1:], training=training or not tracked, momentum=MOMENTUM, eps=EPS
    )
    found = split_norm(*pieces, running, rows, training)
    assert close(found, wanted)
    upstream = draw(*shape, seed=5)
    (wanted * upstream).sum().backward()
    (found * upstream).sum().backward()
    for one, other in zip(pieces, whole, strict=True):
        assert (one is None and other is None) or close(one.grad, other.grad)
    for own in running:
        assert not tracked or all(close(one, other) for one, other in zip(own, whole_running, strict=True))
    moved = tracked and not torch.equal(whole_running[0], start[0])
    assert moved == (training and tracked)


def test_one_value_a_channel_is_refused_as_by_torch():
    x, total = draw(1, 3), draw(2, 3)
    with pytest.raises(ValueError, match="more than 1 value per channel"):
        track(total, Part(), mean=torch.zeros(3), variance=torch.ones(3), momentum=MOMENTUM, count=1)
    with pytest.raises(ValueError, match="more than 1 value per channel"):
        F.batch_norm(x, None, None, training=True)


def test_gradients_reach_the_statistics_of_pieces_without_rows():
    """Every message sent forward is answered by a gradient, also that of an empty piece."""
    empty = draw(0, 3).requires_grad_()
    joint([statistics(empty), statistics(draw(4, 3))], (0, 4)).sum().backward()
    assert empty.grad is not None
    assert empty.grad.shape == (0, 3)


@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_the_kernels_gradients_are_those_of_finite_differences(shape, affine):
    x, weight, bias = leaves_of(shape, affine)
    total = torch.stack((draw(3, seed=6), draw(3, seed=7).abs() + 0.5)).requires_grad_()
    assert torch.autograd.gradcheck(statistics, (x,))
    assert torch.autograd.gradcheck(
        lambda *given: normalise(given[0], given[1], Part(), eps=EPS, weight=given[2], bias=given[3]),
        (x, total, weight, bias),
    )


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_the_kernels_are_the_formula(layout, monkeypatch):
    x = draw(6, 3, 4, 5).float().to(memory_format=layout)
    weight, bias = draw(3, seed=1).float(), draw(3, seed=2).float()

    def found():
        total = statistics(x)
        return total, normalise(x, total, Part(), eps=EPS, weight=weight, bias=bias)

    quick = found()
    monkeypatch.setattr("hyperplace.runtime.operations._is_plain", lambda x: False)
    assert all(torch.allclose(one, other, atol=1e-5) for one, other in zip(quick, found(), strict=True))
