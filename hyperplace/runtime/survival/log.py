"""The calls that a trainer makes again when a host was lost, and losses that whichever generation computes."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from hyperplace.runtime.losses import Loss
from hyperplace.runtime.survival.buddies import Cut
from hyperplace.runtime.trainer import Trainer


@dataclass(eq=False)
class Call:
    """A call in the log, with where it was made: before any cut of a later place, after any other."""

    place: Cut
    run: Callable[[Trainer], Any] | None  # None: all have done it, and what is left of it is that the pipe ran dry
    number: int | None = None  # among the calls in which processes wait for each other; None for a step
    changes: bool = False  # what is trained: it is made again wherever a cut before it is gone back to
    flushes: bool = True


class LaterLoss(Loss):
    """The loss of a mini-batch, whichever generation computes it; the first that does is believed."""

    def __init__(self, flush: Callable[[], None]) -> None:
        super().__init__(1, flush)
        self.now: Loss | None = None

    @property
    def is_ready(self) -> bool:
        return self.now is not None and self.now.is_ready

    def item(self) -> float:
        if not self.is_ready:
            self._flush()
        assert self.now is not None
        return self.now.item()

    def __repr__(self) -> str:
        return repr(self.now)


@dataclass
class Log:
    """The calls that may have to be made again."""

    calls: deque[Call] = field(default_factory=deque)
    num_done: int = 0  # of those in which processes wait for each other

    def forget(self, stable: Cut, num_done_by_all: int) -> None:
        """Drop what lies before a cut that nobody goes back from, and what calls hold that all have done."""
        while self.calls and self.calls[0].place < stable:
            self.calls.popleft()
        for call in reversed(self.calls):
            if call.number is not None and call.number < num_done_by_all and not call.changes:
                if call.run is None:
                    break
                call.run = None
