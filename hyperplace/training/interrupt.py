"""Ctrl-C as a wish: whoever trains ends in good order, or is ended where that takes too long."""

import signal
import threading
from types import FrameType, TracebackType
from typing import Any

GRACE_S = 3.0  # for the mini-batches under way; what is left of five seconds is for ending the threads


class Interrupt:
    """In the block the first Ctrl-C sets `is_wanted`; a second one, or the end of the grace, is a KeyboardInterrupt."""

    def __init__(self, grace_s: float = GRACE_S) -> None:
        self.is_wanted = False
        self._grace_s = grace_s
        self._timer: threading.Timer | None = None
        self._before: Any = None

    def __enter__(self) -> "Interrupt":
        # Only the main thread gets signals; and what a shell has told a background job to ignore stays ignored.
        if threading.current_thread() is threading.main_thread() and callable(signal.getsignal(signal.SIGINT)):
            self._before = signal.signal(signal.SIGINT, self._on_signal)
        return self

    def __exit__(self, kind: type[BaseException] | None, fault: BaseException | None, at: TracebackType | None) -> None:
        self.calm()
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)

    def calm(self) -> None:
        """Raise nothing later: what had to end has ended."""
        if self._timer:
            self._timer.cancel()

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self.is_wanted:
            raise KeyboardInterrupt
        self.is_wanted = True
        # A real signal: _thread.interrupt_main would wait for the end of whatever the main thread is blocked in.
        again = (threading.main_thread().ident, signal.SIGINT)
        self._timer = threading.Timer(self._grace_s, signal.pthread_kill, again)
        self._timer.daemon = True
        self._timer.start()
