"""`torch.autocast` around `step` and `predict` does what it does around a plain loop's forward pass and loss."""

import copy

import pytest
import torch
from grain_cases import FLOWS, GRAINS, batches, net, plain_loop, trainer_on
from program_cases import largest_difference
from torch.nn import functional as F

import hyperplace


def bfloat16(**options):
    return torch.autocast("cpu", dtype=torch.bfloat16, **options)


def sgd(parameters):
    return torch.optim.SGD(parameters, lr=0.02)


def cast_forward(model, x, y):
    with bfloat16():
        return F.cross_entropy(model(x), y)


@pytest.mark.parametrize("flow", FLOWS)
@pytest.mark.parametrize("grain", GRAINS)
@pytest.mark.timeout(60)
def test_twenty_steps_equal_the_plain_loop_within_the_round_off_of_bfloat16(grain, flow):
    """The yardstick is how far autocast takes the plain loop itself from float32.

    Splitting changes the order of sums, as another number of threads does, and each partial sum of the fine grain is
    rounded by itself: twice the yardstick is allowed. Without autocast the same runs are a thousand times nearer.
    """
    model = net(torch.float32)
    _, precise = plain_loop(model, sgd)
    losses, wanted = plain_loop(model, sgd, forward=cast_forward)
    yardstick = largest_difference(wanted, precise)
    with trainer_on(grain, model, optimizer=sgd, **FLOWS[flow]) as trainer:
        found = []
        for x, y in batches(torch.float32):
            with bfloat16():
                found.append(trainer.step(x, y))
        assert [loss.item() for loss in found] == pytest.approx(losses, abs=0.02)
        assert largest_difference(trainer.state_dict(), wanted) < 2 * yardstick
        assert largest_difference(trainer.state_dict(), precise) > 100 * uncast_difference(grain, flow, precise)


def uncast_difference(grain, flow, precise):
    with trainer_on(grain, net(torch.float32), optimizer=sgd, **FLOWS[flow]) as trainer:
        for x, y in batches(torch.float32):
            trainer.step(x, y)
        return largest_difference(trainer.state_dict(), precise)


def test_every_mini_batch_has_the_autocast_it_was_given_in():
    seen = []

    def loss(output, target):
        seen.append((output.dtype, torch.is_autocast_enabled("cpu")))
        return F.cross_entropy(output, target)

    blocks = [bfloat16(), bfloat16(enabled=False), torch.autocast("cpu", dtype=torch.float16), bfloat16()]
    with trainer_on("coarse", net(torch.float32), loss=loss, optimizer=sgd, in_flight=4) as trainer:
        for block, (x, y) in zip(blocks, batches(torch.float32), strict=False):
            with block:
                trainer.step(x, y)
        trainer.flush()
    kinds = [torch.bfloat16, torch.float32, torch.float16, torch.bfloat16]
    assert seen == [(kind, kind != torch.float32) for kind in kinds]


def test_predictions_are_cast_too():
    model, (x, _) = net(torch.float32), batches(torch.float32)[0]
    with trainer_on("hybrid", model, optimizer=sgd) as trainer:
        with bfloat16():
            found = trainer.predict(x)
        assert trainer.predict(x).dtype == torch.float32
    with bfloat16(), torch.no_grad():
        wanted = copy.deepcopy(model).eval()(x)
    assert found.dtype == wanted.dtype == torch.bfloat16
    assert torch.allclose(found, wanted, atol=0.03)


def test_what_travels_is_counted_in_the_dtype_it_travels_in_and_a_plan_may_be_made_for_it():
    model, (x, y) = net(torch.float32), batches(torch.float32)[0]

    def plan():
        return hyperplace.place(model, x, k=2, batch=len(x), grain="coarse", partitioner="horizontal", imbalance=1.0)

    with bfloat16():
        half = plan()
    assert half.metrics.training_volume_bytes < 0.6 * plan().metrics.training_volume_bytes, "inputs stay as they are"
    with hyperplace.compile(model, half, optimizer=sgd, loss=F.cross_entropy) as trainer, bfloat16():
        trainer.step(x, y)
        assert sum(trainer.moved_bytes().values()) == half.metrics.training_volume_bytes
