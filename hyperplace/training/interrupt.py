"""Ctrl-C, or SIGTERM, as a wish: whoever trains ends in good order, or is ended where that takes too long."""

import math
import signal
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any

from hyperplace.errors import TrainingError
from hyperplace.runtime.hosts.world import World

GRACE_S = 1.0  # for the mini-batches under way; what is left of five seconds is for the checkpoint
AGREE_S = 3.0  # for all processes to hear of a signal, before the lookout takes it for a deadlock
SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupt:
    """In the block the first signal sets `is_wanted`, and `then` is called after the grace; a second calls `end_now`.

    Nothing is ever raised: an exception could come anywhere, also just before or within the saving of what is done.
    """

    def __init__(
        self, end_now: Callable[[], None], grace_s: float = GRACE_S, then: Callable[[], None] | None = None
    ) -> None:
        self.signal: int | None = None  # the first that came
        self._end_now, self._grace_s, self._then = end_now, grace_s, then or end_now
        self._timer: threading.Timer | None = None
        self._before: dict[int, Any] = {}

    @property
    def is_wanted(self) -> bool:
        return self.signal is not None

    def __enter__(self) -> "Interrupt":
        # Only the main thread gets signals; and what a shell has told a background job to ignore stays ignored.
        if threading.current_thread() is threading.main_thread():
            for number in SIGNALS:
                if signal.getsignal(number) not in (signal.SIG_IGN, None):
                    self._before[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(self, kind: type[BaseException] | None, fault: BaseException | None, at: TracebackType | None) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)
        if self._timer:
            self._timer.cancel()
            self._timer.join()

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self.is_wanted:
            self._end_now()
            return
        self.signal = number
        self._timer = threading.Timer(self._grace_s, self._then)
        self._timer.daemon = True
        self._timer.start()


class Halt:
    """Where all processes of a run stop: each hears of a signal at another place, and all must make the same calls.

    Whoever has heard goes no further, and says how many places it has passed. Once all have said so, all go on to where
    the first of them is.
    """

    def __init__(self, world: Callable[[], World], end_now: Callable[[], None]) -> None:
        self._world, self._end_now = world, end_now
        self._num_passed = 0
        self._limit: float = math.inf  # of places to pass
        self._is_agreed = False
        self._changed = threading.Condition()

    def is_here(self) -> bool:
        """Say whether to stop at this place, which every process comes to; wait while they find out."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_agreed or self._num_passed < self._limit)
            is_here = self._num_passed >= self._limit
            self._num_passed += not is_here
            return is_here

    def begin_anew(self) -> None:
        """Count places from here on, where somebody has come who has passed none."""
        with self._changed:
            self._num_passed = 0

    def agree(self) -> None:
        """Find the place where all can stop; where one of them is not heard of, end."""
        with self._changed:
            self._limit = limit = self._num_passed
        try:
            limit = max(map(int, self._world().told("stop", str(limit), AGREE_S)))
        except TrainingError:
            self._end_now()
        with self._changed:
            self._limit, self._is_agreed = limit, True
            self._changed.notify_all()
