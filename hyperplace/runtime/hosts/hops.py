"""What a short message takes in a run: timed with a program that hands a few numbers on, and works a little in between.

    visit 0 of part 0 -> visit 1 of part 1 -> ... -> part k-1 -> part 0 -> ..., and backward all the way

A ping-pong of bare sends is no measure for it. A rank also finds out what to do next, begins a segment, wraps what it
sends and wakes up from its wait, and after a convolution nothing of that is in the caches any more: on two cores of one
machine a ping took 0.05 ms, a hop 0.2, and one with work between hops, on the way forward only, 0.34, not counting the
work. A long chain minus a short one leaves out what comes once per mini-batch.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median

import torch
from torch import Tensor
from torch.nn import functional
from torch.optim import SGD

from hyperplace.runtime.hosts.meeting import met_world
from hyperplace.runtime.run_settings import RunSettings
from hyperplace.runtime.runnable import Part, Runnable
from hyperplace.runtime.runnable import program as runnable_of
from hyperplace.runtime.trainer import Trainer
from hyperplace.runtime.weights import Training
from hyperplace.values.program import Feed, Message, Output, Piece, Receive, Segment, Send

SHORT, LONG = 1, 9  # laps around all parts
ROWS, FILTERS = 1, 256  # of a message: as many numbers as a layer's statistics
WARM_UP, STEPS, ROUNDS = 3, 5, 5
WORK = (4, 64, 32, 32)  # of a visit, forward and backward: a convolution of so many rows and filters
TRIES = 40


@dataclass(frozen=True)
class Hop:
    """A short message from one part to the next: until what follows from it, and the work of either end for it."""

    seconds: float
    busy_s: float


def measured_hop(num_parts: int) -> Hop:
    """Return what a message takes between the processes of torch.distributed, one part each; all of them call it."""
    work_s, work_busy_s = _alone()
    (short_s, short_busy_s), (long_s, long_busy_s) = (_lap_times(num_parts, laps) for laps in (SHORT, LONG))
    lap_s, lap_busy_s = (long_s - short_s) / (LONG - SHORT), (long_busy_s - short_busy_s) / (LONG - SHORT)
    # In a lap every part works, sends and receives forward and backward.
    return Hop(max(lap_s / num_parts / 2 - work_s, 0.0), max(lap_busy_s / 2 - work_busy_s, 0.0) / 2)


def _alone() -> tuple[float, float]:
    """Return the seconds of a visit's work by itself, and those of the processor."""
    for _ in range(TRIES):
        _work()
    begin, busy = time.perf_counter(), time.process_time()
    for _ in range(TRIES):
        _work()
    return (time.perf_counter() - begin) / TRIES, (time.process_time() - busy) / TRIES


def _work() -> None:
    with torch.no_grad():
        functional.conv2d(torch.zeros(WORK), torch.zeros(WORK[1], WORK[1], 3, 3), padding=1)


def _lap_times(num_parts: int, laps: int) -> tuple[float, float]:
    """Return the seconds of a mini-batch on a chain, and those of this process's processor."""
    runnable, state = chain(num_parts, laps), {"scale": torch.ones(FILTERS)}
    settings = RunSettings(in_flight=1, threads=1)
    training = Training(lambda parameters: SGD(parameters, lr=0.0))
    world = met_world(runnable.program, state, settings, training)
    x = torch.ones(ROWS, FILTERS)
    with Trainer(runnable, state, training=training, loss=_loss, settings=settings, world=world) as trainer:
        _trained(trainer, x, WARM_UP)
        rounds = [_trained(trainer, x, STEPS) for _ in range(ROUNDS)]
    return median(seconds for seconds, _ in rounds), median(busy for _, busy in rounds)


def _trained(trainer: Trainer, x: Tensor, steps: int) -> tuple[float, float]:
    begin, busy = time.perf_counter(), time.process_time()
    for _ in range(steps):
        trainer.step(x, None)
    trainer.flush()
    return (time.perf_counter() - begin) / steps, (time.process_time() - busy) / steps


def _loss(output: Tensor, target: object) -> Tensor:
    return output.mean()


def chain(num_parts: int, laps: int) -> Runnable:
    """Return a program that goes through all parts in turn, so many times."""
    visits = num_parts * laps
    scale = {"scale": Piece("scale", (FILTERS,))}  # something to learn, so that gradients come back
    classes = []
    for p in range(num_parts):
        segments = tuple(_visit(number, visits) for number in range(p, visits, num_parts))
        methods: Mapping[str, Callable[[Part, Tensor], tuple[Tensor]]] = {
            one.name: _scaled if one.weights else _handed_on for one in segments
        }
        words = {"segments": segments, "weights": scale if p == 0 else {}, **methods}
        classes.append(type(f"Part{p}", (Part,), words))
    messages = tuple(
        Message(n, f"hop {n}", n % num_parts, (n + 1) % num_parts, (ROWS, FILTERS), rows=(0, ROWS))
        for n in range(visits - 1)
    )
    return runnable_of("hops", inputs=((FILTERS,),), parts=tuple(classes), messages=messages, batch=ROWS)


def _visit(number: int, visits: int) -> Segment:
    take = Receive(number - 1) if number else Feed(0, f"0:{FILTERS}")
    give = Send(number) if number < visits - 1 else Output(0)
    weights = () if number else ("scale",)
    return Segment(f"visit{number}", (take,), (give,), ("hop",), weights, forward=1.0, backward=1.0)


def _scaled(part: Part, x: Tensor) -> tuple[Tensor]:
    return (_Worked.apply(x * part.scale),)  # type: ignore[no-untyped-call]


def _handed_on(part: Part, x: Tensor) -> tuple[Tensor]:
    return (_Worked.apply(x),)  # type: ignore[no-untyped-call]


class _Worked(torch.autograd.Function):
    """A tensor as it is, after some work, and so its gradient."""

    @staticmethod
    def forward(ctx: object, x: Tensor) -> Tensor:
        _work()
        return x.clone()

    @staticmethod
    def backward(ctx: object, gradient: Tensor) -> Tensor:
        _work()
        return gradient
