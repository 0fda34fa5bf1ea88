"""A fault in a program with copies ends everything in time, wherever the others wait for gradients or weights."""

import random
import threading
import time

import pytest
import torch
from replica_programs import data, data_parallel, plain, random_layers, trainer_of
from test_faults import LIMIT_S, BrokenBackward, Injected, break_update, train

from hyperplace.errors import TrainingError


def break_segment(trainer, part, index, batch, wrap):
    """Let `wrap` have the results of a part's segment in one of its calls."""
    owner = trainer.ranks[part].part
    name = owner.segments[index].name
    method, count = getattr(owner, name), [0]

    def broken(*arguments):
        count[0] += 1
        results = method(*arguments)
        return wrap(results) if count[0] == batch + 1 else results

    setattr(owner, name, broken)
    return owner.segments[index].layers[0]


def fail(results):
    raise Injected("here")


def fail_backward(results):
    return tuple(BrokenBackward.apply(result) for result in results)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("seed", range(40))
def test_a_fault_anywhere_with_copies_ends_everything_in_time(seed):
    rng = random.Random(seed)
    layers = random_layers(seed)
    before = threading.active_count()
    trainer = trainer_of(layers, schedule=rng.choice(["async", "sync"]), in_flight=rng.randrange(1, 5))
    doing = rng.choice(["forward", "backward", "update"])
    can = [w for w in trainer.ranks if (w.weights.optimizer if doing == "update" else w.part.segments)]
    part, batch = rng.choice(can).number, rng.randrange(8)
    where = ""
    if doing == "update":
        break_update(trainer, part, batch)
    else:
        index = rng.randrange(len(trainer.ranks[part].part.segments))
        wrap = fail if doing == "forward" else fail_backward
        where = f" of {break_segment(trainer, part, index, batch, wrap)}"
    with pytest.raises(TrainingError) as caught:
        train(trainer, data(8))
    assert time.monotonic() - caught.value.__cause__.time < LIMIT_S
    assert f"part {part} failed in the {doing}{where}, mini-batch {batch}: Injected: here" in str(caught.value)
    assert threading.active_count() == before
    assert all(torch.isfinite(tensor).all() for tensor in trainer.state_dict().values())


@pytest.mark.parametrize("schedule", ["async", "sync"])
@pytest.mark.parametrize("part", [0, 1, 2])
def test_after_a_fault_lenders_have_the_weights_of_finished_mini_batches(schedule, part):
    """The owners of both weights wait for the gradients of a part that fails in its backward pass."""
    layers = data_parallel(3)
    _, wanted = plain(layers, data(4))
    trainer = trainer_of(layers, schedule=schedule)
    break_segment(trainer, part, 0, 4, fail_backward)
    with pytest.raises(TrainingError, match=rf"part {part} failed in the backward of layer 0, mini-batch 4"):
        train(trainer, data(9))
    state = trainer.state_dict()
    assert torch.allclose(state["w0"], wanted["w0"], rtol=0, atol=1e-12)
    assert torch.allclose(state["w1"], wanted["w1"], rtol=0, atol=1e-12)
    assert all(p.grad is None for w in trainer.ranks for p in w.weights.parameters.values())
