"""A loss with parameters of its own is refused before anything is trained: no part would train them."""

from functools import partial

import pytest
import torch
from handmade import ZIGZAG, batches, squared, state_of
from torch import nn

from hyperplace.errors import TrainingError, UsageError
from hyperplace.runtime import RunSettings, Trainer, Training


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(2.0, dtype=torch.float64))
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, output, target, power=1):
        self.calls += 1
        return squared(output, target) * self.scale**power

    def through(self, output, target):
        return self(output, target)

    def beside(self, output, target):
        return squared(output, target)

    def frozen(self):
        return self.requires_grad_(False)


class Squared(nn.Module):
    def forward(self, output, target):
        return squared(output, target)


def trainer(loss):
    training = Training(lambda ps: torch.optim.SGD(ps, lr=0.1))
    return Trainer(ZIGZAG, state_of(ZIGZAG), training=training, loss=loss, settings=RunSettings(in_flight=1))


@pytest.mark.parametrize("loss", [Scaled(), partial(Scaled(), power=2)], ids=["module", "partial"])
def test_a_module_is_refused_at_once(loss):
    with pytest.raises(UsageError, match=r"the loss Scaled has parameters of its own \(scale\), .* not be trained"):
        trainer(loss)


OWN = Scaled()
HIDDEN = {
    "method": OWN.through,
    "partial method": partial(OWN.through),
    "function": lambda output, target: OWN(output, target),
    "penalty": lambda output, target: squared(output, target) + OWN.scale.norm(),
}


@pytest.mark.parametrize("how", HIDDEN)
def test_whatever_way_a_parameter_comes_into_the_loss_it_is_found_before_the_first_update(how):
    with trainer(HIDDEN[how]) as running:
        with pytest.raises(TrainingError, match=r"UsageError: the loss depends on a parameter of shape \(\)"):
            running.step(*batches(1)[0]).item()
        assert all(torch.equal(running.state_dict()[name], tensor) for name, tensor in state_of(ZIGZAG).items())


FINE = {
    "frozen": Scaled().frozen(),
    "detached": lambda output, target: squared(output, target) + OWN.scale.detach(),
    "without gradients": lambda output, target: squared(output, target) + torch.no_grad()(OWN)(output, target),
    "a method that uses none": OWN.beside,
    "a module without": Squared(),
}


@pytest.mark.parametrize("how", FINE)
def test_parameters_that_get_no_gradient_are_fine(how):
    with trainer(FINE[how]) as running:
        assert running.step(*batches(1)[0]) > 0


def test_buffers_of_a_loss_may_be_written():
    loss = Scaled().frozen()
    with trainer(loss) as running:
        for x, y in batches(3):
            running.step(x, y)
    assert loss.calls == 3


def test_what_is_no_function_is_refused():
    with pytest.raises(UsageError, match="loss is str, but a function"):
        trainer("cross_entropy")
