"""Receive buffers: used again, but never while anybody still sees what is in them."""

from collections import deque

import torch

from hyperplace.runtime.transport import buffers as buffers_module
from hyperplace.runtime.transport.buffers import Buffers


def test_what_is_forgotten_is_used_again():
    buffers = Buffers()
    place = buffers.take((4, 2), torch.float32).data_ptr()
    assert buffers.take((8,), torch.float32).data_ptr() == place
    assert buffers.take((4,), torch.float64).data_ptr() == place, "of the same size in bytes"
    assert buffers.take((5,), torch.float64).data_ptr() != place


def test_what_somebody_has_is_left_alone():
    buffers = Buffers()
    kept = buffers.take((4,), torch.float32).fill_(1.0)
    view = kept[:2]
    other = buffers.take((4,), torch.float32).fill_(2.0)
    del kept
    third = buffers.take((4,), torch.float32).fill_(3.0)
    assert view.tolist() == [1.0, 1.0], "a view is enough"
    assert other.tolist() == [2.0] * 4
    assert third.tolist() == [3.0] * 4


def test_what_autograd_has_is_left_alone():
    buffers = Buffers()
    weight = torch.ones(4, requires_grad=True)
    received = buffers.take((4,), torch.float32).fill_(5.0)
    loss = (received * weight).sum()
    del received
    buffers.take((4,), torch.float32).fill_(7.0)
    loss.backward()
    assert weight.grad.tolist() == [5.0] * 4


def test_sizes_of_nothing_and_of_one_number():
    buffers = Buffers()
    assert buffers.take((), torch.float64).shape == ()
    assert buffers.take((0, 3), torch.float32).shape == (0, 3)
    assert buffers.take((2,), torch.bool).dtype == torch.bool


def test_hundreds_of_one_size_are_looked_at_once_each(monkeypatch):
    """What comes in order is forgotten in order: a message need not ask all the others' buffers."""
    buffers, asked = Buffers(), []
    count = buffers_module._num_references
    monkeypatch.setattr(buffers_module, "_num_references", lambda one: asked.append(one) or count(one))
    held = deque(buffers.take((256,), torch.float32) for _ in range(200))
    asked.clear()
    for _ in range(1000):
        held.popleft()
        held.append(buffers.take((256,), torch.float32))
    assert len(asked) == 1000
    assert len({one.data_ptr() for one in held}) == 200
