"""Time the contenders by turns, then watch each plan once more for its timeline and the bytes it moves.

A repeat fills the pipe with mini-batches that are not timed; then every further step lets one mini-batch finish, so the
time of some steps is what so many mini-batches cost in the steady state. Whatever else the machine does meets all
methods alike, for each has its turn in every round.
"""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import cycle, islice

from torch import Tensor, nn

from hyperplace import api
from hyperplace.bench.contender import PROFILE_ROUNDS, BenchSettings, Contender, contenders
from hyperplace.data import batches, synthetic
from hyperplace.errors import UsageError
from hyperplace.runtime import Trainer
from hyperplace.training.learner import Learner
from hyperplace.values.bench import Bench, BenchRow
from hyperplace.values.images import Shape
from hyperplace.values.profile import machine_line
from hyperplace.values.timeline import Timeline

NUM_CLASSES = 10
SETTLING_STEPS = 3
DIFFERENT_BATCHES = 4  # used in turn: what is in them does not matter for the time

Batch = tuple[Tensor, Tensor]
OnProgress = Callable[[str], None]


@dataclass(frozen=True)
class Measured:
    """The table, and the best plan's timeline in the steady state; None where no plan could be made."""

    bench: Bench
    timeline: Timeline | None


def bench(
    model: nn.Module,
    sample: tuple[Tensor, ...],
    settings: BenchSettings,
    *,
    on_progress: OnProgress = lambda text: None,
) -> Measured:
    """Measure everything, on as many cores as there are parts."""
    check_images(settings.model, sample)
    minibatches = made_up(sample, settings.batch, settings.seed)
    with on_cores(settings.k) as num_cores:
        graph = api.capture(model, sample)
        on_progress("measuring layers")
        costs = api.profile(graph, costs=settings.costs, batch=settings.batch, threads=1, rounds=PROFILE_ROUNDS)
        everyone = contenders(model, graph, costs, settings, on_progress)
        speeds = _speeds(everyone, minibatches, settings, on_progress)
        watched = [_watched(one, minibatches, settings, on_progress) for one in everyone]
    rows = [replace(row, images_per_s=tuple(own)) for (row, _), own in zip(watched, speeds, strict=True)]
    found = Bench(
        model=settings.model,
        inputs=tuple(tuple(x.shape[1:]) for x in sample),
        k=settings.k,
        steps=settings.steps,
        imbalance=settings.imbalance,
        costs=settings.costs,
        machine=machine_line(threads=1),
        num_cores=num_cores,
        rows=tuple(rows),
    )
    timelines = {row: timeline for row, (_, timeline) in zip(rows, watched, strict=True)}
    return Measured(found, timelines[found.best] if found.best else None)


def check_images(model: str, sample: tuple[Tensor, ...]) -> None:
    """Refuse a model that reads something else."""
    if len(sample) != 1 or sample[0].ndim != 4:
        raise UsageError(f"{model} does not read single images, which the bench makes up; measure it from Python")


def made_up(sample: tuple[Tensor, ...], batch: int, seed: int) -> list[Batch]:
    """Return some mini-batches of images like the sample, the same for the same seed."""
    _, channels, height, width = sample[0].shape
    shape: Shape = (channels, height, width)
    images = synthetic(batch * DIFFERENT_BATCHES, shape, NUM_CLASSES, seed)
    return list(batches(images, batch, seed=seed, epoch=0))


@contextmanager
def on_cores(number: int) -> Iterator[int]:
    """Keep this thread, and those it starts, on so many cores, or on all there are; hand out how many that is."""
    if not hasattr(os, "sched_setaffinity"):  # not a thing outside Linux
        yield os.cpu_count() or 1
        return
    before = os.sched_getaffinity(0)
    chosen = sorted(before)[:number]
    os.sched_setaffinity(0, chosen)
    try:
        yield len(chosen)
    finally:
        os.sched_setaffinity(0, before)


def _speeds(
    everyone: list[Contender], minibatches: list[Batch], settings: BenchSettings, on_progress: OnProgress
) -> list[list[float]]:
    """Return the images per second of every contender in every round."""
    speeds: list[list[float]] = [[] for _ in everyone]
    for repeat in range(settings.repeats):
        for one, own in zip(everyone, speeds, strict=True):
            if one.row.note:
                continue
            on_progress(f"round {repeat + 1} of {settings.repeats}: {one.row.method} {one.row.schedule}")
            with one.opened() as learner:
                seconds = _timed(learner, minibatches, settings)
            own.append(settings.steps * settings.batch / seconds)
    return speeds


def _timed(learner: Learner, minibatches: list[Batch], settings: BenchSettings) -> float:
    """Return the seconds of the steps after those that fill the pipe."""
    source = cycle(minibatches)
    give(learner, source, _warm_up(settings))
    begin = time.perf_counter()
    give(learner, source, settings.steps)
    return time.perf_counter() - begin


def _warm_up(settings: BenchSettings) -> int:
    """Return how many mini-batches fill the pipe, and some more: memory is not all there at once."""
    return settings.in_flight + 1 + SETTLING_STEPS


def give(learner: Learner, source: Iterator[Batch], number: int) -> None:
    """Train on so many mini-batches."""
    for x, y in islice(source, number):
        learner.step(x, y)


def _watched(
    one: Contender, minibatches: list[Batch], settings: BenchSettings, on_progress: OnProgress
) -> tuple[BenchRow, Timeline | None]:
    """Return the row of a plan with its bubble and bytes, and its timeline, from a run that is recorded."""
    if one.program is None or one.settings is None:
        return one.row, None
    on_progress(f"recording {one.row.method} {one.row.schedule}")
    warm_up, pieces = _warm_up(settings), one.settings.micro_batches
    with one.opened(record=True) as learner:
        assert isinstance(learner, Trainer)
        give(learner, cycle(minibatches), warm_up + settings.steps + settings.in_flight)
        timeline = learner.timeline().between(warm_up * pieces, (warm_up + settings.steps) * pieces)
        moved = sum(learner.moved_bytes().values()) / learner.num_batches
    return replace(one.row, bubble=float(timeline.bubble.mean()), moved_bytes=moved), timeline
