"""Rows split over parts with copies of the weights train as the unsplit model does."""

import pytest
import torch
from replica_programs import data, data_parallel, plain, squared, trainer_of
from torch import nn

OPTIMIZERS = {
    "momentum": lambda ps: torch.optim.SGD(ps, lr=0.1, momentum=0.9),
    "adam": lambda ps: torch.optim.Adam(ps, lr=0.01),
}


def same(one, other, tolerance=1e-12):
    return one.keys() == other.keys() and all(torch.allclose(one[n], other[n], rtol=0, atol=tolerance) for n in other)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("num_parts", [2, 3])
@pytest.mark.parametrize(
    "settings",
    [
        {"schedule": "async"},
        {"schedule": "sync"},
        {"schedule": "sync", "micro_batches": 2, "in_flight": 2},
        {"schedule": "sync", "micro_batches": 4, "in_flight": 3},
    ],
    ids=str,
)
def test_steps_equal_those_of_the_unsplit_model(optimizer, num_parts, settings):
    layers, batches = data_parallel(num_parts), data(6)
    losses, wanted = plain(layers, batches, OPTIMIZERS[optimizer])
    with trainer_of(layers, optimizer=OPTIMIZERS[optimizer], **settings) as trainer:
        found = [trainer.step(x, y).item() for x, y in batches]
        assert found == pytest.approx(losses, abs=1e-12)
        assert same(trainer.state_dict(), wanted)
