"""Bugs once found: weights of another shape, and a staleness that is read while it grows."""

import threading

import pytest
import torch
from torch import nn
from torch.nn import functional

import hyperplace
from hyperplace.errors import UsageError
from hyperplace.runtime.weights import Staleness


def test_a_state_dict_with_the_same_names_and_other_shapes_is_refused() -> None:
    """Two nets may call their layers alike; the pieces then did not fit, or worse, did."""
    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.Flatten(), nn.Linear(144, 4))
    plan = hyperplace.place(model, torch.zeros(2, 1, 8, 8), k=2, partitioner="incremental")
    other = nn.Sequential(nn.Conv2d(1, 8, 3), nn.Flatten(), nn.Linear(288, 4)).state_dict()
    with (
        hyperplace.compile(
            model, plan, optimizer=lambda ps: torch.optim.SGD(ps, lr=0.1), loss=functional.cross_entropy
        ) as trainer,
        pytest.raises(UsageError, match=r"'0.weight' is \(8, 1, 3, 3\), not \(4, 1, 3, 3\)"),
    ):
        trainer.load_state_dict(other)


def test_staleness_can_be_read_while_it_is_counted() -> None:
    staleness = Staleness()
    adder = threading.Thread(target=lambda: [staleness.add(number) for number in range(20_000)])
    adder.start()
    while adder.is_alive():
        assert staleness.mean >= 0
    adder.join()
