"""Train a plan for some epochs, with a checkpoint after each, from the start or from where an earlier run ended."""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from hyperplace import api
from hyperplace.errors import FileError, TrainingError, UsageError
from hyperplace.runtime.checkpoints.checkpoint import read_for, restore, save_checkpoint
from hyperplace.runtime.gauges import read_gauges
from hyperplace.runtime.survival.survivor import Survivor
from hyperplace.training.epoch import Epoch, OnSnapshot, Progress, Snapshot
from hyperplace.training.interrupt import Halt, Interrupt
from hyperplace.training.learner import Judge
from hyperplace.training.meter import Meter, OnReading
from hyperplace.training.sets import Sets
from hyperplace.training.settings import Flow, TrainSettings
from hyperplace.values.history import HistoryRow
from hyperplace.values.plan import Plan
from hyperplace.values.timeline import Timeline

if TYPE_CHECKING:
    from hyperplace.runtime.checkpoints.checkpoint import Trains
OnEpoch = Callable[[Snapshot, list[HistoryRow]], None]  # how it ended, and all rows so far


@dataclass(frozen=True)
class Outcome:
    """How a run ended; `num_steps` mini-batches are done of an epoch that a signal, such as Ctrl-C, broke off."""

    rows: tuple[HistoryRow, ...]
    num_epochs: int  # of the rows, those of this run
    is_interrupted: bool
    signal: int | None
    num_steps: int
    staleness: tuple[float, ...]  # mean, per part, of this run's updates
    moved_bytes: int  # between parts, in this run, or since the last host was lost
    copied_bytes: int = 0  # to other hosts, with --survive
    slow: tuple[str, ...] = ()  # hosts that showed signs of life late, in words


def method_name(plan: Plan, flow: Flow) -> str:
    """Return what a run of a plan is called in a history."""
    stash = "" if flow.stash or flow.schedule == "sync" else ", no stash"
    many = f", {flow.in_flight} in flight" if flow.schedule == "async" else ""
    return f"k={plan.settings.k} {flow.schedule}{many}{stash}"


def make_trainer(model: nn.Module, plan: Plan, settings: TrainSettings, flow: Flow, judge: Judge) -> "Trains":
    """Return a trainer with plain SGD."""
    num_parts = plan.settings.k
    words = vars(flow) | {"devices": flow.devices_for(num_parts)}
    return api.compile(model, plan, optimizer=sgd(settings), loss=judge, seed=settings.seed, **words)


def sgd(settings: TrainSettings) -> Callable[..., torch.optim.Optimizer]:
    """Return what makes the optimizer of some parameters."""
    return lambda parameters: torch.optim.SGD(parameters, lr=settings.lr, momentum=settings.momentum)


def train(
    model: nn.Module,
    plan: Plan,
    settings: TrainSettings,
    sets: Sets,
    *,
    flow: Flow,
    checkpoint: Path,
    resume: bool = False,
    on_ready: Callable[[], None] = lambda: None,
    on_step: OnSnapshot = lambda shown: None,
    on_epoch: OnEpoch = lambda shown, rows: None,
    on_timeline: Callable[[Timeline], None] = lambda timeline: None,
    on_change: Callable[[str, bool], None] = lambda words, is_first: None,
    on_reading: OnReading | None = None,
) -> Outcome:
    """Train until all epochs are done or Ctrl-C is pressed; either way the checkpoint holds all that is finished.

    SIGTERM is as Ctrl-C. Where a host was lost, `on_change` gets the words for it, and whether this is the first
    process now, which has the checkpoint and the figures. `on_ready` is called once nothing can be wrong with model,
    plan, settings and checkpoint, and there is something to train: a checkpoint of all epochs, whose run was broken off
    before its reports, has nothing. `on_reading` gets a reading of all parts now and then; of several processes all
    must ask for it, or none.
    """
    judge = Judge()
    with make_trainer(model, plan, settings, flow, judge) as trainer, _interrupt(trainer) as (interrupt, is_stopped):
        progress = Progress(method_name(plan, flow))
        if isinstance(trainer, Survivor):
            trainer.on_return = judge.forget
            trainer.on_change = lambda change: on_change(str(change), trainer.world.number == 0)
            progress.take_brought(trainer.brought, math.ceil(len(sets.train) / settings.batch))
        if resume:
            _resume(trainer, checkpoint, settings, progress, len(sets.train))
        num_before = progress.epoch
        was_over = is_over = num_before >= settings.epochs
        if not was_over:
            on_ready()
        epoch = Epoch(trainer, judge, progress, settings, sets, on_step, is_stopped)
        meter = _metered(epoch, trainer, on_reading) if on_reading else None
        while not is_over:
            shown = _run_or_end(epoch, trainer, interrupt)
            save_checkpoint(trainer, checkpoint, _extra(settings, progress))
            if shown and meter:
                meter.on_tested(shown)
            if shown:
                on_epoch(shown, progress.rows)
            is_over = is_stopped() or progress.epoch >= settings.epochs
            if isinstance(trainer, Survivor) and not is_over:
                trainer.take_in(_extra(settings, progress))
        if flow.record and not was_over:
            on_timeline(trainer.timeline())
        return _outcome(trainer, progress, progress.epoch - num_before, interrupt.signal)


def _metered(epoch: Epoch, trainer: "Trains", on_reading: OnReading) -> Meter:
    """Let a meter hear of every loss and step."""
    progress, given_to = epoch.progress, epoch.on_step
    num_known = progress.epoch * math.ceil(len(epoch.sets.train) / epoch.settings.batch) + progress.num_steps
    meter = Meter(lambda: read_gauges(trainer), on_reading, num_known=num_known)

    def on_step(shown: Snapshot) -> None:
        given_to(shown)
        meter.on_step(shown)

    epoch.on_step, epoch.on_loss, epoch.on_trained = on_step, meter.add_loss, meter.on_trained
    return meter


@contextmanager
def _interrupt(trainer: "Trains") -> Iterator[tuple[Interrupt, Callable[[], bool]]]:
    """Hand out what signals do in the block, and what says whether to stop: of several processes all at one place."""
    if trainer.world.size == 1 and not isinstance(trainer, Survivor):
        with Interrupt(trainer.stop) as interrupt:
            yield interrupt, lambda: interrupt.is_wanted
    else:
        halt = Halt(lambda: trainer.world, trainer.stop)
        if isinstance(trainer, Survivor):
            trainer.on_arrival = halt.begin_anew
        with Interrupt(trainer.stop, 0.0, halt.agree) as interrupt:
            yield interrupt, halt.is_here


def _run_or_end(epoch: Epoch, trainer: "Trains", interrupt: Interrupt) -> Snapshot | None:
    """Run the epoch; where that cannot end in time, count what every part has finished."""
    given_before = trainer.num_finished - epoch.progress.num_steps
    try:
        return epoch.run()
    except TrainingError as error:
        if trainer.world.size > 1 or not interrupt.is_wanted or error.__cause__ is not None:  # a part has failed
            raise
        epoch.progress.num_steps = trainer.num_finished - given_before
        return None


def _outcome(trainer: "Trains", progress: Progress, num_epochs: int, number: int | None) -> Outcome:
    means = trainer.outlive(
        lambda one: one.world.exchange("staleness", [part.mean for part in one.staleness]), flushes=False
    )
    staleness = tuple(mean for some in means for mean in some)
    moved, slow = sum(trainer.moved_bytes().values()), tuple(trainer.world.slow())
    copied = trainer.total(trainer.copied_bytes)[0]
    rows, is_interrupted = tuple(progress.rows), number is not None
    return Outcome(rows, num_epochs, is_interrupted, number, progress.num_steps, staleness, moved, copied, slow)


def _extra(settings: TrainSettings, progress: Progress) -> dict[str, Any]:
    return {"settings": settings.kept, "progress": asdict(progress)}


def _resume(trainer: "Trains", path: Path, settings: TrainSettings, progress: Progress, num_images: int) -> None:
    """Go on from a checkpoint, which another plan of the model may have made."""
    content = read_for(trainer, path)
    try:
        _check_kept(path, content["extra"]["settings"], settings)
        progress.take(content["extra"]["progress"], math.ceil(num_images / settings.batch))
    except (KeyError, TypeError, ValueError, AttributeError):
        raise FileError(f"{path} was not made by hyperplace train; use load_checkpoint from Python") from None
    if progress.epoch > settings.epochs:
        raise UsageError(f"{path} has {progress.epoch} epochs already; give --epochs {progress.epoch + 1} to go on")
    restore(trainer, path, content)


def _check_kept(path: Path, known: dict[str, Any], settings: TrainSettings) -> None:
    for name, value in settings.kept.items():
        if known[name] != value:
            was = "all images" if known[name] is None else f"--{name} {known[name]}"
            raise UsageError(f"{path} was made with {was}, not {value}; give the same, or begin anew in another --out")
