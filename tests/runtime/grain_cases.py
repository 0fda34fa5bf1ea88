"""A small CNN on every grain, and the plain loop over twenty steps that it must equal."""

import copy

import torch
from program_cases import planned, trainer_of
from torch import nn
from torch.nn import functional as F

from hyperplace.steps.capture import capture

STEPS, ROWS = 20, 6
GRAINS = {
    "coarse": ("coarse", "scattered"),
    "fine": ("fine", "scattered"),
    "hybrid": ("hybrid", "scattered"),
    "data parallel": ("hybrid", "dataparallel"),
}
FLOWS = {"async": {"in_flight": 1}, "sync": {"schedule": "sync"}}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.norm, self.b = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.Conv2d(8, 8, 3, padding=1)
        self.head = nn.Linear(8 * 4, 5)

    def forward(self, x):
        x = F.relu(self.norm(self.a(x)))
        x = F.max_pool2d(x + torch.tanh(self.b(x)), 2)
        return self.head(x.flatten(1))


def net(dtype=torch.float64):
    torch.manual_seed(0)
    return Net().to(dtype)


def batches(dtype=torch.float64, count=STEPS):
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(count, ROWS, 3, 4, 4, generator=generator).to(dtype)
    y = torch.randint(5, (count, ROWS), generator=generator)
    return list(zip(x, y, strict=True))


def sgd(parameters):
    return torch.optim.SGD(parameters, lr=0.1, momentum=0.9)


def trainer_on(grain, model, *, k=3, loss=F.cross_entropy, **settings):
    """Return a trainer of the model on a grain."""
    graph = capture(model, batches(next(model.parameters()).dtype)[0][0])
    return trainer_of(graph, planned(graph, *GRAINS[grain][:1], k, GRAINS[grain][1]), model, loss, **settings)


def plain_loop(model, optimizer=sgd, *, before_step=lambda model: None, forward=None, count=STEPS):
    """Return the losses and the state dict after a plain loop."""
    model, losses = copy.deepcopy(model), []
    stepper = optimizer(model.parameters())
    for x, y in batches(next(model.parameters()).dtype, count):
        stepper.zero_grad()
        loss = forward(model, x, y) if forward else F.cross_entropy(model(x), y)
        loss.backward()
        before_step(model)
        stepper.step()
        losses.append(loss.item())
    return losses, model.state_dict()
