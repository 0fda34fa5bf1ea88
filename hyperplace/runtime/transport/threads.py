"""Messages between the threads of one process, counted.

`receive` waits until a message is there. Mailboxes hold only what mini-batches in flight have under way, so they are
bounded by those.
"""

from collections import Counter
from contextlib import AbstractContextManager

from torch import Tensor

from hyperplace.runtime.bell import Bell
from hyperplace.runtime.gate import Gate
from hyperplace.runtime.transport import Key, Stopped


class Threads:
    """The mailboxes of all parts; each is emptied by one thread only, so single operations on dicts need no lock."""

    def __init__(self, num_parts: int) -> None:
        self._boxes: list[dict[Key, Tensor | None]] = [{} for _ in range(num_parts)]
        self._bells = [Bell() for _ in range(num_parts)]
        self._sent: list[Counter[tuple[str, int, int]]] = [Counter() for _ in range(num_parts)]  # by sender: no lock
        self._unplanned: list[Counter[tuple[str, int, int]]] = [Counter() for _ in range(num_parts)]
        self._gate = Gate(num_parts)
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

    def drop(self, target: int, way: str) -> None:
        """Forget what has come to a part in some way and was not taken."""
        box = self._boxes[target]
        for key in [key for key in list(box) if key.way == way]:
            del box[key]

    def writing(self, part: int, *, together: bool) -> AbstractContextManager[None]:
        return self._gate.writing(part, together=together)

    def wait_until_written(self, limit_s: float) -> bool:
        """Wait until no part writes its weights, once aborted; return whether that is so."""
        return self._gate.wait_until_free(limit_s)

    def abort(self) -> None:
        """Close the gate, and wake everyone who waits; may be called again, where an interrupt came in between."""
        self.is_stopped = True
        self._gate.close()
        for bell in self._bells:
            bell.ring()

    def clear(self) -> None:
        for box in self._boxes:
            box.clear()

    def moved_bytes(self, *, planned: bool = True) -> Counter[tuple[str, int, int]]:
        """Return the bytes sent so far by (way, source, target)."""
        return sum((counted.copy() for counted in (self._sent if planned else self._unplanned)), Counter())
