"""A loss is a number for whoever uses it as one, and waits for its mini-batch only then."""

import math

import numpy as np
import pytest
import torch
from handmade import ZIGZAG, batches, squared, state_of

from hyperplace.errors import TrainingError
from hyperplace.runtime import Loss, RunSettings, Trainer, Training


def loss_of(number):
    loss = Loss(1, lambda: None)
    loss.add(torch.tensor(number, dtype=torch.float64))
    return loss


ONE, TWO = loss_of(1.5), loss_of(2.0)


def test_it_formats():
    assert f"{ONE:.3f}" == "1.500" == f"{float(ONE):.3f}"
    assert repr(ONE) == str(ONE) == f"{ONE}" == "Loss(1.5)"
    assert repr(Loss(1, lambda: None)) == "Loss(under way)"


def test_it_compares():
    assert ONE < TWO
    assert ONE <= 1.5 <= ONE
    assert TWO > 1.9
    assert 3 > TWO >= ONE
    assert ONE == 1.5 != TWO
    assert min([TWO, ONE]) is ONE
    assert {ONE: "found"}[1.5] == "found"


def test_it_computes():
    assert sum([ONE, TWO]) == 3.5
    assert sum([ONE, TWO]) / 2 == np.mean([ONE, TWO]) == 1.75
    assert (ONE + 1, 1 + ONE, ONE - TWO, 5 - ONE) == (2.5, 2.5, -0.5, 3.5)
    assert (ONE * TWO, 2 * ONE, ONE / TWO, 3 / ONE, ONE**2) == (3.0, 3.0, 0.75, 2.0, 2.25)
    assert (-ONE, abs(ONE), round(loss_of(1.234), 1), int(TWO), bool(ONE)) == (-1.5, 1.5, 1.2, 2, True)
    assert math.exp(ONE) == math.exp(1.5)
    assert np.array([ONE, TWO]).tolist() == [1.5, 2.0]
    assert torch.equal(torch.ones(2) * TWO, torch.full((2,), 2.0))


def trainer():
    training = Training(lambda ps: torch.optim.SGD(ps, lr=0.1))
    settings = RunSettings(in_flight=4)
    return Trainer(ZIGZAG, state_of(ZIGZAG), training=training, loss=squared, settings=settings)


def test_using_it_waits_for_the_mini_batch():
    with trainer() as running:
        losses = [running.step(x, y) for x, y in batches(3)]
        assert sum(losses) == pytest.approx(sum(loss.item() for loss in losses))
        assert all(loss.is_ready for loss in losses)


def test_one_that_was_cut_off_says_so():
    with trainer() as running:
        loss = Loss(1, running.flush)
        with pytest.raises(TrainingError, match="cut off before it had a loss"):
            loss.item()
