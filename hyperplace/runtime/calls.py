"""One call of a trainer at a time, and what an interrupted one leaves behind.

An interrupt may come between any two steps of the interpreter, also within whatever would tidy up after it. So nothing
tidies up: a call is on the list until it has come to its end, and the next one looks whether those before it still run.
One that does not, and had begun to hand something out, was interrupted: then the trainer is broken.
"""

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import wraps
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from hyperplace.errors import TrainingError

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(eq=False)
class Call:
    """A call of a method; its lock, which nobody waits for, is taken while it runs."""

    name: str
    thread: threading.Thread = field(default_factory=threading.current_thread)
    running: threading.Lock = field(default_factory=threading.Lock)
    has_ordered: bool = False  # something is being handed out to the ranks, and they have not done it all


class Calls:
    """The calls of one trainer."""

    def __init__(self) -> None:
        self._process = os.getpid()
        self._begun: list[Call] = []
        self._now: Call | None = None
        self.broken_by: str | None = None  # the call that was interrupted

    @property
    def is_forked(self) -> bool:
        """Whether this is a child of the process that has the trainer's threads."""
        return os.getpid() != self._process

    def begin(self, call: Call) -> None:
        """Refuse the call while another one runs; note what an interrupted one has left."""
        if self.is_forked:
            raise TrainingError("the trainer's threads are not in this forked process; make a trainer of its own in it")
        self._begun.append(call)
        for other in list(self._begun):
            if other is call:
                break
            # A thread that calls again is no longer within the other call, or in a signal handler, which interrupts it.
            if other.running.locked() and other.thread is not call.thread:
                self.end(call)
                raise TrainingError(
                    f"the trainer is within {other.name}(), called in thread {other.thread.name!r}; "
                    "make one call at a time"
                )
            if other.has_ordered:
                self.broken_by = self.broken_by or other.name
            self.end(other)
        self._now = call

    def note_order(self, *, is_done: bool = False) -> None:
        """Note that the call hands something out, from when on an interrupt breaks the trainer, or that all is done."""
        assert self._now is not None
        self._now.has_ordered = not is_done

    def end(self, call: Call) -> None:
        """Take a call off the list."""
        with suppress(ValueError):  # another thread was faster
            self._begun.remove(call)


class HasCalls(Protocol):
    """Whose calls are made one at a time."""

    @property
    def calls(self) -> Calls: ...


T = TypeVar("T", bound=HasCalls)


def one_at_a_time(method: Callable[Concatenate[T, P], R]) -> Callable[Concatenate[T, P], R]:
    """Make a method refuse to run while another one of the same object does."""

    @wraps(method)
    def run(self: T, /, *args: P.args, **words: P.kwargs) -> R:
        call = Call(method.__name__)
        with call.running:
            self.calls.begin(call)
            result = method(self, *args, **words)
            self.calls.end(call)
        return result

    return run
