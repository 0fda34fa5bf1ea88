"""Messages between the threads of one process, counted, and how these threads wait for each other.

`receive` waits until a message is there. Mailboxes hold only what mini-batches in flight have under way, so they are
bounded by those.
"""

import threading
import time
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import AbstractContextManager, contextmanager

from torch import Tensor

from hyperplace.runtime.transport import Key, Moved, Stopped


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


class Gate:
    """Lets parts write their weights: all together, or each by itself.

    Once the gate is closed, no part begins to write; once it is free, none writes any more: then the weights can be
    read, even while a part is still in a long forward or backward pass, which writes none.

    Together, a part that comes waits for all others: then all of them write or none does, whenever the gate is closed.

    There is no lock, for whoever closes the gate may be interrupted while it has one. Instead a part first says that it
    is inside and then looks whether the gate is closed; whoever closes it does so first and then looks who is inside.
    """

    def __init__(self, parts: Collection[int]) -> None:
        self._is_inside = dict.fromkeys(parts, False)
        self._num_come = dict.fromkeys(parts, 0)  # how often each part has come to write together
        self._bells = {part: Bell() for part in parts}
        self._left = Bell()
        self._may_write: dict[int, bool] = {}  # by how often they have come: what was decided for all
        self._is_closed = False

    @contextmanager
    def writing(self, part: int, *, together: bool) -> Iterator[None]:
        """Let a part write in the block; raise Stopped if the gate is closed."""
        self._is_inside[part] = True
        try:
            if not (self._is_let_in_with_all(part) if together else not self._is_closed):
                raise Stopped
            yield
        finally:
            self._is_inside[part] = False
            self._left.ring()

    def _is_let_in_with_all(self, part: int) -> bool:
        self._num_come[part] += 1
        turn = self._num_come[part]
        if min(self._num_come.values()) >= turn:
            self._ring_all()
        while min(self._num_come.values()) < turn and not self._is_closed:
            self._bells[part].wait()
        # The first to say so decides for all: setdefault is one operation of the interpreter.
        may_write = self._may_write.setdefault(turn, min(self._num_come.values()) >= turn and not self._is_closed)
        self._may_write.pop(turn - 1, None)
        return may_write

    def _ring_all(self) -> None:
        for bell in self._bells.values():
            bell.ring()

    def close(self) -> None:
        """Let nobody in any more."""
        self._is_closed = True
        self._ring_all()

    def wait_until_free(self, limit_s: float) -> bool:
        """Wait until nobody is inside, and return whether that is so; for a gate that is closed."""
        deadline = time.monotonic() + limit_s
        while any(self._is_inside.values()) and time.monotonic() < deadline:
            self._left.wait(max(0.0, deadline - time.monotonic()))
        return not any(self._is_inside.values())


class Threads:
    """The mailboxes of all parts; each is emptied by one thread only, so single operations on dicts need no lock."""

    def __init__(self, parts: Collection[int]) -> None:
        self._boxes: dict[int, dict[Key, Tensor | None]] = {part: {} for part in parts}
        self._bells = {part: Bell() for part in parts}
        self._sent: dict[int, Moved] = {part: Counter() for part in parts}  # by sender: no lock
        self._unplanned: dict[int, Moved] = {part: Counter() for part in parts}
        self._gate = Gate(parts)
        self.is_stopped = False

    def send(self, key: Key, tensor: Tensor | None, *, like: Tensor | None = None, planned: bool = True) -> None:
        """Put a tensor into its target's mailbox."""
        counted = self._sent if planned else self._unplanned
        sized = tensor if like is None else like
        assert sized is not None
        counted[key.source][key.way, key.source, key.target] += sized.numel() * sized.element_size()
        self._boxes[key.target][key] = tensor
        self._bells[key.target].ring()

    def receive(self, key: Key) -> Tensor | None:
        """Take a tensor out of the mailbox of the key's target, waiting until it comes."""
        box = self._boxes[key.target]
        while key not in box:
            if self.is_stopped:
                raise Stopped
            self._bells[key.target].wait()
        return box.pop(key)

    def announce(self, command: object) -> None:
        """Nothing needs to be known beforehand."""

    def spread(self, batch: int, loss: Tensor) -> bool:
        return False

    def loss(self, batch: int) -> None:
        return None

    def writing(self, part: int, *, together: bool) -> AbstractContextManager[None]:
        return self._gate.writing(part, together=together)

    def has_sent_all(self) -> bool:
        return True

    def waits_in_vain(self, part: int) -> bool:
        return False

    def wait_until_written(self, limit_s: float) -> bool:
        """Wait until no part writes its weights, once aborted; return whether that is so."""
        return self._gate.wait_until_free(limit_s)

    def abort(self) -> None:
        """Close the gate, and wake everyone who waits; may be called again, where an interrupt came in between."""
        self.is_stopped = True
        self._gate.close()
        for bell in self._bells.values():
            bell.ring()

    def clear(self) -> None:
        for box in self._boxes.values():
            box.clear()

    def moved_bytes(self, *, planned: bool = True) -> Moved:
        """Return the bytes sent so far by (way, source, target)."""
        return sum((counted.copy() for counted in (self._sent if planned else self._unplanned).values()), Counter())
