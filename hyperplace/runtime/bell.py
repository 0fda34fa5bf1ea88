"""How a thread is woken: by one that knows that something has changed."""

import threading


class Bell:
    """Rings until the one thread that waits for it has heard it; several rings before that are one.

    One lock of the interpreter and not a Condition, which is Python code around several: an interrupt in the midst of
    that leaves a lock taken, and whoever wants it next waits for ever.
    """

    def __init__(self) -> None:
        self._silence = threading.Lock()
        self._silence.acquire()

    def ring(self) -> None:
        """Wake whoever waits, or will wait next."""
        try:
            self._silence.release()
        except RuntimeError:  # it rings already
            return

    def wait(self, limit_s: float = -1) -> None:
        """Wait for a ring, or so many seconds; look again at what was waited for, for a ring may be an old one."""
        self._silence.acquire(timeout=limit_s)
