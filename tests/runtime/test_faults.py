"""Whatever goes wrong in a rank reaches the caller at once, with part and layer; nothing hangs, no thread is left."""

import gc
import random
import signal
import subprocess
import sys
import threading
import time
import traceback

import pytest
import torch
from handmade import ZIGZAG, batches, squared, state_of
from torch import nn

import hyperplace
from hyperplace.errors import TrainingError
from hyperplace.runtime import RunSettings, Trainer, Training

LIMIT_S = 5.0


def make(**settings):
    training = Training(lambda ps: torch.optim.SGD(ps, lr=0.05))
    chosen = RunSettings(**{"schedule": "async", "in_flight": 3, **settings})
    return Trainer(ZIGZAG, state_of(ZIGZAG), training=training, loss=squared, settings=chosen)


def train(trainer, data):
    """Train on all mini-batches and end."""
    with trainer:
        for x, y in data:
            trainer.step(x, y)


class Injected(Exception):
    """The fault; it knows when it happened."""

    def __init__(self, words):
        super().__init__(words)
        self.time = time.monotonic()


def break_forward(trainer, part, batch):
    """Make a part raise in the first segment of a mini-batch."""
    rank = trainer.ranks[part]
    method, count = rank.part.one, [0]

    def broken(*arguments):
        count[0] += 1
        if count[0] == batch + 1:
            raise Injected("here")
        return method(*arguments)

    rank.part.one = broken


class BrokenBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        raise Injected("here")


def break_backward(trainer, part, batch):
    rank = trainer.ranks[part]
    method, count = rank.part.one, [0]

    def broken(*arguments):
        count[0] += 1
        results = method(*arguments)
        return tuple(BrokenBackward.apply(r) for r in results) if count[0] == batch + 1 else results

    rank.part.one = broken


def break_update(trainer, part, batch):
    optimizer = trainer.ranks[part].weights.optimizer
    step, count = optimizer.step, [0]

    def broken(closure=None):
        count[0] += 1
        if count[0] == batch + 1:
            raise Injected("here")
        return step(closure)

    optimizer.step = broken


BREAKS = {"forward": break_forward, "backward": break_backward, "update": break_update}


@pytest.mark.parametrize("seed", range(200))
def test_a_fault_anywhere_ends_everything_in_time(seed):
    rng = random.Random(seed)
    doing, part, batch = rng.choice(list(BREAKS)), rng.randrange(2), rng.randrange(12)
    schedule = rng.choice(["async", "sync"])
    before = threading.active_count()
    trainer = make(schedule=schedule, in_flight=rng.randrange(1, 5))
    BREAKS[doing](trainer, part, batch)
    with pytest.raises(TrainingError) as caught:
        train(trainer, batches(12))
    assert time.monotonic() - caught.value.__cause__.time < LIMIT_S
    where = {"forward": " of ", "backward": " of ", "update": ""}[doing]
    assert f"part {part} failed in the {doing}{where}" in str(caught.value)
    assert "Injected: here" in str(caught.value)
    if where:
        assert f" of {'ab'[part]}, " in str(caught.value)
    assert threading.active_count() == before
    state = trainer.state_dict()
    assert all(torch.isfinite(tensor).all() for tensor in state.values())


def test_after_a_fault_the_weights_of_finished_mini_batches_are_there():
    with make(in_flight=1) as plain:
        for x, y in batches(4):
            plain.step(x, y)
        wanted = plain.state_dict()
    trainer = make(in_flight=1)
    break_forward(trainer, 1, 4)
    with pytest.raises(TrainingError):
        train(trainer, batches(12))
    assert all(torch.equal(wanted[name], trainer.state_dict()[name]) for name in wanted)


def test_a_fault_in_the_loss_is_named():
    def broken(output, target):
        raise Injected("no loss")

    training = Training(lambda ps: torch.optim.SGD(ps, lr=0.05))
    trainer = Trainer(ZIGZAG, state_of(ZIGZAG), training=training, loss=broken)
    with pytest.raises(TrainingError, match=r"part 0 failed in the loss.*Injected: no loss"):
        train(trainer, batches(1))


class Fragile(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second, self.third = nn.Conv2d(3, 4, 1), nn.Conv2d(4, 4, 1), nn.Conv2d(4, 2, 1)

    def forward(self, x):
        return self.third(torch.sqrt(self.second(self.first(x))))


def fragile_trainer(**options):
    torch.manual_seed(0)
    net, x = Fragile(), torch.randn(2, 3, 4, 4)
    plan = hyperplace.place(net, x, k=2, imbalance=1.0, batch=2, partitioner="layerwise")
    return x, hyperplace.compile(
        net, plan, optimizer=lambda ps: torch.optim.SGD(ps, lr=0.1), loss=lambda o, y: o.mean(), **options
    )


def test_the_nan_check_names_the_layer_and_keeps_the_weights():
    x, trainer = fragile_trainer(check_nan=True)
    before = trainer.state_dict()
    with pytest.raises(TrainingError, match=r"in the forward of second, mini-batch 0: FloatingPointError: aten.sqrt"):
        train(trainer, [(x, None)])
    assert all(torch.equal(before[name], trainer.state_dict()[name]) for name in before)


def test_a_traceback_shows_the_lines_of_the_program():
    x, trainer = fragile_trainer(check_nan=True)
    gc.collect()
    with pytest.raises(TrainingError) as caught:
        train(trainer, [(x, None)])
    lines = [frame.line for frame in traceback.extract_tb(caught.value.__cause__.__traceback__)]
    assert "second = torch.sqrt(second)" in lines


def test_without_the_check_nan_is_the_users_own_affair():
    x, trainer = fragile_trainer()
    with trainer:
        assert trainer.step(x, None).item() != trainer.step(x, None).item()


def test_a_rank_that_does_not_come_back_is_left_behind_with_a_warning():
    begun, end = threading.Event(), threading.Event()

    def stuck(output, target):
        begun.set()
        end.wait(60)
        return squared(output, target)

    training = Training(lambda ps: torch.optim.SGD(ps, lr=0.05))
    settings = RunSettings(in_flight=1)
    trainer = Trainer(ZIGZAG, state_of(ZIGZAG), training=training, loss=stuck, settings=settings)
    trainer.step(*batches(1)[0])
    assert begun.wait(60)
    begin = time.monotonic()
    with pytest.warns(UserWarning, match="part 0 is still in a long operation"):
        trainer.close()
    assert time.monotonic() - begin < LIMIT_S
    end.set()
    thread = trainer._crew._threads[0]
    thread.join(LIMIT_S)
    assert not thread.is_alive()


SCRIPT = """
import sys, time, threading, torch
sys.path.insert(0, {folder!r})
from handmade import *
from hyperplace.runtime import RunSettings, Trainer, Training
def slow(output, target):
    time.sleep(0.02)
    return squared(output, target)
trainer = Trainer(ZIGZAG, state_of(ZIGZAG), training=Training(lambda ps: torch.optim.SGD(ps, lr=0.05)), loss=slow)
try:
    with trainer:
        for number in range(100000):
            trainer.step(*batches(1)[0])
            if number == 5:
                print("running", flush=True)
except KeyboardInterrupt:
    print("saved", len(trainer.state_dict()), threading.active_count(), flush=True)
"""


def test_ctrl_c_ends_the_threads_and_leaves_the_weights(request):
    script = SCRIPT.format(folder=str(request.path.parent))
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "running\n"
    begin = time.monotonic()
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    assert out == "saved 3 1\n"
    assert time.monotonic() - begin < LIMIT_S
