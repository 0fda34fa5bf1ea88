"""Work side by side: a lane per core, each a list of tasks in turn, until all have ended or one ends it for all."""

import threading
import time
from collections.abc import Callable, Sequence

import numpy as np

from hyperplace.errors import BalanceError, PartitionerError, PartitionerTimeout

Task = Callable[[], None]


class Stop:
    """When to end: at the time limit, which only some tasks look at, or when told to, which all do."""

    def __init__(self, time_limit_s: float) -> None:
        """Start the clock; a limit of 0 means none."""
        self._deadline = time.monotonic() + (time_limit_s or np.inf)
        self._is_told = threading.Event()
        self.is_cut_short = False
        self.is_interrupted = False  # by Ctrl-C

    def tell(self, *, cut_short: bool) -> None:
        """End all work; `cut_short` where it might have found more."""
        self.is_cut_short = cut_short
        self._is_told.set()

    def is_told(self) -> bool:
        return self._is_told.is_set()

    def is_over(self) -> bool:
        """Say whether all work is to end, or the time is up."""
        if time.monotonic() > self._deadline:
            self.is_cut_short = True
            return True
        return self.is_told()

    def seconds_left(self) -> float:
        return max(0.0, self._deadline - time.monotonic())

    def after(self) -> "Stop":
        """Return the stop of a search after this one: without a limit, but over where this one was interrupted."""
        stop = Stop(0.0)
        if self.is_interrupted:
            stop.tell(cut_short=True)
        return stop

    def wait(self, seconds: float) -> bool:
        """Wait, less long if told to end; say whether that was so."""
        return self._is_told.wait(seconds)


def run_lanes(lanes: Sequence[Sequence[Task]], stop: Stop) -> None:
    """Run the lanes until all have ended or one was told to; a fault in one ends all and is raised here."""
    faults: list[BaseException] = []
    threads = [threading.Thread(target=_run, args=(lane, stop, faults), daemon=True) for lane in lanes]
    try:
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads) and not stop.wait(0.05):
            pass
    except KeyboardInterrupt:
        stop.is_interrupted = True
        stop.tell(cut_short=True)
        raise
    if faults:
        raise faults[0]


def _run(lane: Sequence[Task], stop: Stop, faults: list[BaseException]) -> None:
    for task in lane:
        if stop.is_told():
            return
        try:
            task()
        except (BalanceError, PartitionerError) as fault:  # another search may do better; if none, the result says so
            stop.is_cut_short |= isinstance(fault, PartitionerTimeout)
        except BaseException as fault:  # a worker's edge: whatever it is, it must reach the caller
            faults.append(fault)
            stop.tell(cut_short=False)
            return
