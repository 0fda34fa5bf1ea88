"""What has no gradient in the plain loop has none here: an optimizer's weight decay leaves it alone."""

import copy

import pytest
import torch
from grain_cases import FLOWS, GRAINS, batches
from program_cases import planned
from torch import nn
from torch.nn import functional as F

import hyperplace
from hyperplace.steps.capture import capture


class CutOff(nn.Module):
    """A convolution whose output is only read detached, and one that learns."""

    def __init__(self):
        super().__init__()
        self.idle, self.a, self.b = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 8, 1)
        self.head = nn.Linear(8 * 16, 5)

    def forward(self, x):
        return self.head(F.relu(self.b(self.a(x) + self.idle(x).relu().detach())).flatten(1))


def decaying(parameters):
    return torch.optim.SGD(parameters, lr=0.1, weight_decay=0.1)


def plain(model, data):
    model = copy.deepcopy(model)
    optimizer = decaying(model.parameters())
    for x, y in data:
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
    return model.state_dict()


@pytest.mark.parametrize("flow", FLOWS)
@pytest.mark.parametrize("grain", GRAINS)
def test_weights_without_a_gradient_do_not_decay(grain, flow):
    """Parts answered with zeros where there was no gradient, and weight decay took them for one."""
    torch.manual_seed(0)
    model, data = CutOff().double(), batches(count=3)
    plan = planned(capture(model, data[0][0]), GRAINS[grain][0], 3, GRAINS[grain][1])
    with hyperplace.compile(model, plan, optimizer=decaying, loss=F.cross_entropy, **FLOWS[flow]) as trainer:
        for x, y in data:
            trainer.step(x, y)
        found, wanted = trainer.state_dict(), plain(model, data)
    for name, tensor in wanted.items():
        torch.testing.assert_close(found[name], tensor, rtol=1e-9, atol=1e-12)
