"""Work side by side: a lane per core, each a list of tasks in turn, until all have ended or one ends it for all.

One deadline is handed down to everything that may take long. A task that looks at it too late (a library that computes
for itself) is left behind: its thread may go on, but nobody waits for it.
"""

import atexit
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from hyperplace.errors import BalanceError, PartitionerError, PartitionerTimeout

LOOK_S = 0.05  # between two looks at the deadline
LONGEST_AT_EXIT_S = 20.0
GRACE_S = 0.5  # after it, in which a task may hand in what it has


@dataclass(frozen=True)
class Task:
    """Something to do in a lane, and what to call it where it is cut short or left out."""

    name: str
    run: Callable[[], None]


class Stop:
    """When to end: at the deadline, when told to, or when the stop that this one is a part of says so."""

    def __init__(self, time_limit_s: float = 0.0) -> None:
        """Start the clock; a limit of 0 means none."""
        self._deadline = time.monotonic() + (time_limit_s or np.inf)
        self._whole: Stop | None = None
        self._name = ""
        self._is_told = threading.Event()
        self.is_cut_short = False
        self.is_interrupted = False  # by Ctrl-C
        self.left_out: list[str] = []
        self.seconds = 0.0  # that lanes have run under this stop

    def part(self, share: float, name: str = "") -> "Stop":
        """Return the stop of one search among several: over when its share of what is left is, or when all is over."""
        stop = Stop()
        stop._whole, stop._name = self, name
        stop._deadline = time.monotonic() + self.seconds_left() * share
        return stop

    @property
    def whole(self) -> "Stop":
        """The stop of everything, of which this is a part."""
        return self._whole.whole if self._whole else self

    def tell(self, *, cut_short: bool) -> None:
        """End all work; `cut_short` where it might have found more."""
        self.is_cut_short = cut_short
        self._is_told.set()

    def interrupt(self) -> None:
        """End all work for good, as after Ctrl-C."""
        self.is_interrupted = True
        self.tell(cut_short=True)
        if self._whole:
            self._whole.interrupt()

    def is_told(self) -> bool:
        """Say whether someone has ended all work, rather than the deadline."""
        return self._is_told.is_set() or bool(self._whole and self._whole.is_told())

    def is_over(self) -> bool:
        """Say whether all work is to end; whoever asks after the deadline has been cut short."""
        if self.is_told():
            return True
        if time.monotonic() > self._deadline:
            self.is_cut_short = True
            return True
        return False

    def seconds_left(self) -> float:
        return max(0.0, self._deadline - time.monotonic())

    def leave_out(self, what: str) -> None:
        """Note a search that the deadline has ended or prevented."""
        self.is_cut_short = True
        self._note(what)

    def _note(self, what: str) -> None:
        if self._whole:
            self._whole._note(f"{self._name}{what}")
        elif what not in self.left_out:
            self.left_out.append(what)

    def wait(self, seconds: float) -> bool:
        """Wait, less long if all work is to end; say whether that is so."""
        end = time.monotonic() + seconds
        while not self.is_over() and (left := end - time.monotonic()) > 0:
            self._is_told.wait(min(left, LOOK_S))
        return self.is_over()


_threads: "weakref.WeakSet[threading.Thread]" = weakref.WeakSet()


@atexit.register
def _wait_for_threads() -> None:
    """Wait for threads left behind: Python ends a daemon inside a C++ library by aborting the whole process."""
    end = time.monotonic() + LONGEST_AT_EXIT_S
    for thread in list(_threads):
        if thread.is_alive():
            thread.join(max(0.0, end - time.monotonic()))


class _Lane:
    """A thread that does its tasks in turn; what it has not ended by the deadline can be asked."""

    def __init__(self, tasks: Sequence[Task], stop: Stop, faults: list[BaseException]) -> None:
        self._tasks, self._stop, self._faults = tasks, stop, faults
        self._num_done = 0
        self._begin, self._end = time.monotonic(), np.inf
        self.thread = threading.Thread(target=self._run, daemon=True)
        _threads.add(self.thread)

    @property
    def seconds(self) -> float:
        """How long it ran, or has run so far."""
        return min(self._end, time.monotonic()) - self._begin

    def note_undone(self) -> None:
        """Note what the deadline has cut or prevented, if that was the reason."""
        if not self._stop.is_told():
            for name in dict.fromkeys(task.name for task in self._tasks[self._num_done :]):
                self._stop.leave_out(name)

    def _run(self) -> None:
        try:
            self._do_tasks()
        finally:
            self._end = time.monotonic()

    def _do_tasks(self) -> None:
        for task in self._tasks:
            if self._stop.is_over():
                return
            try:
                task.run()
            except (BalanceError, PartitionerError) as fault:  # another search may do better, else the result says so
                if isinstance(fault, PartitionerTimeout):
                    self._stop.leave_out(task.name)
            except BaseException as fault:  # a worker's edge: whatever it is, it must reach the caller
                self._faults.append(fault)
                self._stop.tell(cut_short=False)
                return
            if self._stop.is_over() and not self._stop.is_told():
                return  # it may have ended because of the deadline
            self._num_done += 1


def race(lanes: Sequence[Sequence[Task]], stop: Stop, parts: Sequence[Stop] = ()) -> None:
    """Run the lanes until all have ended, one was told to, or the time is up; a fault in one ends all.

    What the deadline has cut or prevented is noted in the stop, or in that of each lane, where there are any.
    """
    faults: list[BaseException] = []
    stops = parts or [stop] * len(lanes)
    running = [_Lane(tasks, own, faults) for tasks, own in zip(lanes, stops, strict=True)]
    try:
        for lane in running:
            lane.thread.start()
        while any(lane.thread.is_alive() for lane in running) and not (faults or stop.wait(LOOK_S)):
            pass
        if not stop.is_told():
            _gather(running)
    except KeyboardInterrupt:
        stop.interrupt()
        raise
    finally:
        for own in set(stops):
            own.seconds += max(lane.seconds for lane, its in zip(running, stops, strict=True) if its is own)
    if faults:
        raise faults[0]
    for lane in running:
        lane.note_undone()


def _gather(lanes: Sequence[_Lane]) -> None:
    """Wait a moment for what the lanes hand in at the deadline."""
    end = time.monotonic() + GRACE_S
    for lane in lanes:
        lane.thread.join(max(0.0, end - time.monotonic()))
