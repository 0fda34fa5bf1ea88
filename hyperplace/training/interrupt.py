"""Ctrl-C, or SIGTERM, as a wish: whoever trains ends in good order, or is ended where that takes too long."""

import signal
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any

GRACE_S = 1.0  # for the mini-batches under way; what is left of five seconds is for the checkpoint
SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupt:
    """In the block the first signal sets `is_wanted`; a second one, or the end of the grace, calls `end_now`.

    Nothing is ever raised: an exception could come anywhere, also just before or within the saving of what is done.
    """

    def __init__(self, end_now: Callable[[], None], grace_s: float = GRACE_S) -> None:
        self.signal: int | None = None  # the first that came
        self._end_now, self._grace_s = end_now, grace_s
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

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self.is_wanted:
            self._end_now()
            return
        self.signal = number
        self._timer = threading.Timer(self._grace_s, self._end_now)
        self._timer.daemon = True
        self._timer.start()
