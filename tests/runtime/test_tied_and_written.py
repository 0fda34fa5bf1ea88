"""Tied weights and buffers that forward writes, twenty steps on every grain against the plain loop."""

import pytest
import torch
from grain_cases import FLOWS, GRAINS, batches, plain_loop, sgd
from program_cases import planned
from torch import nn
from torch.nn import functional as F

import hyperplace
from hyperplace.steps.capture import capture


class Tied(nn.Module):
    """One convolution used twice, and two linear layers of one weight."""

    def __init__(self):
        super().__init__()
        self.first, self.again = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 8, 3, padding=1)
        self.into, self.out, self.head = nn.Linear(32, 32), nn.Linear(32, 32), nn.Linear(32, 5)
        self.out.weight = self.into.weight

    def forward(self, x):
        x = F.relu(self.again(F.relu(self.again(self.first(x)))))
        return self.head(self.out(torch.tanh(self.into(F.max_pool2d(x, 2).flatten(1)))))


class Written(nn.Module):
    """A scale that follows the data and is read before and after it changes, and a counter."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.head = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 8, 3, padding=1), nn.Linear(32, 5)
        self.register_buffer("scale", torch.ones(()))
        self.register_buffer("count", torch.zeros((), dtype=torch.long))

    def forward(self, x):
        x = self.a(x) + self.scale
        with torch.no_grad():
            self.scale.lerp_(x.abs().mean(), 0.1)
        self.count += 1
        return self.head(F.max_pool2d(F.relu(self.b(x * self.scale)), 2).flatten(1))


def model_of(kind):
    torch.manual_seed(0)
    return kind().double()


def trained(model, grain, flow):
    sample = batches()[0][0]
    plan = planned(capture(model, sample), GRAINS[grain][0], 3, GRAINS[grain][1])
    with hyperplace.compile(model, plan, optimizer=sgd, loss=F.cross_entropy, **FLOWS[flow]) as trainer:
        losses = [trainer.step(x, y).item() for x, y in batches()]
        moved = trainer.moved_bytes()
        return losses, trainer.state_dict(), {way: size / len(losses) for way, size in moved.items()}, plan


@pytest.mark.parametrize("flow", FLOWS)
@pytest.mark.parametrize("grain", GRAINS)
@pytest.mark.parametrize("kind", [Tied, Written])
def test_twenty_steps_are_those_of_the_plain_loop(kind, grain, flow):
    losses, state, moved, plan = trained(model_of(kind), grain, flow)
    expected, wanted = plain_loop(model_of(kind))
    assert losses == pytest.approx(expected, rel=1e-9)
    assert state.keys() == wanted.keys()
    for name, tensor in wanted.items():
        torch.testing.assert_close(state[name], tensor, rtol=1e-9, atol=1e-12)
    if flow == "async":  # micro-batches cut other shares of rows than were planned
        assert moved == dict(plan.moved_bytes)
