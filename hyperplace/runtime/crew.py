"""All ranks of a program on one transport, and the threads in which they run."""

import os
import sys
import threading
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from torch import Tensor

from hyperplace.errors import HostLost, UsageError
from hyperplace.runtime.clipping import SharedNorm
from hyperplace.runtime.commands import Command
from hyperplace.runtime.hosts.world import World
from hyperplace.runtime.journal import Journal
from hyperplace.runtime.options import Options
from hyperplace.runtime.progress import Event, Fault, Lost, Progress
from hyperplace.runtime.rank import Rank
from hyperplace.runtime.replicas import Replicas
from hyperplace.runtime.run_settings import RunSettings
from hyperplace.runtime.runnable import Runnable
from hyperplace.runtime.structure import filled
from hyperplace.runtime.transport import Endpoint, Transport
from hyperplace.runtime.weights import Training, Weights
from hyperplace.values.loans import find_loans, updaters
from hyperplace.values.program import Program
from hyperplace.values.relief import chosen_text, recomputed
from hyperplace.values.schedule import Schedule

LESS_PRIORITY = 10  # as nice(1) counts; on Linux threads have their own
FREE_S = 4.0  # how long an update may still take when everything stops
JOIN_LOOK_S = 0.05


def made_ranks(
    runnable: Runnable,
    base: Mapping[str, Tensor],
    schedule: Schedule,
    *,
    training: Training,
    loss: Callable[..., Tensor],
    settings: RunSettings,
    transport: Transport,
    parts: Sequence[int],
    tell: Callable[[Event], None],
) -> list[Rank]:
    """Return the ranks of some parts, each with its slices of the tensors in `base`; they `tell` what happens."""
    program = runnable.program
    _check_recomputes(program, settings, training)
    devices = settings.devices or ("cpu",) * len(program.parts)
    if len(devices) != len(program.parts):
        raise UsageError(f"{len(devices)} devices for {len(program.parts)} parts; give one for each")
    loans = find_loans(program.parts)
    owners = updaters(program.parts, loans)
    options = Options(
        loss=lambda outputs, target: loss(filled(program, outputs), target),
        updates_at_once=settings.schedule == "async",
        updates_together=settings.schedule == "sync" or settings.in_flight == 1,
        seed=settings.seed,
        threads=settings.threads or max(1, num_cores() // len(parts)),
        check_nan=settings.check_nan,
    )
    ranks = []
    for number in parts:
        part, journal = runnable.classes[number](devices[number], program.batch), Journal(is_kept=settings.record)
        endpoint = Endpoint(number, transport, part.device, journal)
        weights = Weights(part, base, training, updates_at_once=settings.schedule != "sync")
        replicas = Replicas(program.parts[number], endpoint, weights, loans=loans, delays=schedule.delays)
        replicas.load(base)
        norm = None
        if training.clip_norm is not None and number in owners:
            norm = SharedNorm(endpoint, owners, weights, most=training.clip_norm)
        ranks.append(
            Rank(
                program,
                part,
                schedule.actions[number],
                endpoint,
                weights=weights,
                replicas=replicas,
                norm=norm,
                journal=journal,
                options=options,
                tell=tell,
            )
        )
    return ranks


def _check_recomputes(program: Program, settings: RunSettings, training: Training) -> None:
    """Refuse to run segments again with other weights than they had the first time."""
    has_stale = settings.schedule == "async" and settings.in_flight > 1
    if has_stale and not training.stash and (chosen := recomputed(program)):
        raise UsageError(
            f"segments {chosen_text(chosen)} are recomputed, which needs the weights of their forward pass; leave "
            "stashing on, or recompute none"
        )


def tell(transport: Transport, progress: Progress, event: Event) -> None:
    """Take what a rank says; a loss goes by the transport, where others wait for it too."""
    if not (isinstance(event, Lost) and transport.spread(event.batch, event.loss)):
        progress.tell(event)


def end_all(world: World, transport: Transport, fault: Fault) -> None:
    """Tell all processes before the connections break, and then stop everything."""
    if not isinstance(fault.cause, HostLost):  # of which all hear without being told
        world.tell_end(str(fault.error()) if world.size == 1 else f"rank {world.number}: {fault.error()}")
    transport.abort()


def num_cores() -> int:
    """Return how many cores there are for this process: those it may use, shared with others that torchrun started."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return cores // int(os.environ.get("LOCAL_WORLD_SIZE", "1"))


class Crew:
    """All ranks, each in a thread of its own, until they are stopped.

    The threads know nothing of the trainer: where nobody has it any more, they end.
    """

    def __init__(self, ranks: Sequence[Rank], transport: Transport, progress: Progress) -> None:
        self._ranks, self._transport, self._progress = ranks, transport, progress
        self._threads = [
            threading.Thread(target=rank.run, name=f"hyperplace part {rank.number}", daemon=True) for rank in ranks
        ]
        for thread in self._threads:
            thread.start()

    def give(self, command: Command) -> None:
        """Hand out a command to all."""
        for rank in self._ranks:
            rank.commands.put(command)

    def stop(self) -> None:
        """Tell all to end, wherever they are; may be called again, and from any thread."""
        self._transport.abort()
        self._progress.wake()
        for rank, thread in zip(self._ranks, self._threads, strict=True):
            rank.commands.put(None)
            _hold_back(thread)

    def stops_writing(self) -> bool:
        """Stop, and return whether the weights are what they will stay: only an update that has begun is waited for."""
        self.stop()
        return self._transport.wait_until_written(FREE_S)

    def end(self, limit_s: float) -> None:
        """Stop, and wait for the threads; one that is in a long operation is left behind, and ends after it.

        One that waits in vain for another host is left behind too, and does nothing any more.
        """
        self.stop()
        deadline = time.monotonic() + limit_s
        for rank, thread in zip(self._ranks, self._threads, strict=True):
            is_stuck = False
            while thread.is_alive() and not is_stuck and time.monotonic() < deadline:
                thread.join(JOIN_LOOK_S)
                is_stuck = self._transport.waits_in_vain(rank.number)
            if is_stuck or not thread.is_alive():
                rank.weights.discard()
            elif limit_s > 0:
                warnings.warn(f"{thread.name} is still in a long operation, and ends after it", stacklevel=3)
        self._transport.clear()


def _hold_back(thread: threading.Thread) -> None:
    """Let a thread that is still in a long operation have what others leave: somebody wants to save its weights."""
    if sys.platform == "linux" and thread.native_id and thread.is_alive():
        with suppress(OSError):  # it has ended meanwhile
            os.setpriority(os.PRIO_PROCESS, thread.native_id, LESS_PRIORITY)
