"""Messages between the threads of one process, counted.

A message has a key that both ends know: the mini-batch, the way it goes, the tensor's name and the two parts. `take`
waits until it is there. Mailboxes hold only what mini-batches in flight have under way, so they are bounded by those.
"""

from collections import Counter
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from hyperplace.runtime.bell import Bell

FORWARD, BACKWARD = "forward", "backward"
GRADIENTS, WEIGHTS = "gradients", "weights"  # of copies: to the owner, and from it
NORMS = "norms"  # of every part's gradients, to all others


class Stopped(Exception):
    """Whoever waits is told to give up, because the run has ended or somebody else failed."""


@dataclass(frozen=True)
class Key:
    """What a message is."""

    batch: int
    way: str
    name: str
    source: int
    target: int


class Post:
    """The mailboxes of all parts; each is emptied by one thread only, so single operations on dicts need no lock."""

    def __init__(self, num_parts: int) -> None:
        self._boxes: list[dict[Key, Tensor | None]] = [{} for _ in range(num_parts)]
        self._bells = [Bell() for _ in range(num_parts)]
        self._sent: list[Counter[tuple[str, int, int]]] = [Counter() for _ in range(num_parts)]  # by sender: no lock
        self._unplanned: list[Counter[tuple[str, int, int]]] = [Counter() for _ in range(num_parts)]
        self._is_stopped = False

    def put(self, key: Key, tensor: Tensor | None, *, like: Tensor | None = None, planned: bool = True) -> None:
        """Send a tensor, which may not be written to afterwards; no gradient, None, is counted as one of `like`'s size.

        None is not zeros: what has no gradient is left alone by optimizers, also by their weight decay.
        """
        counted = self._sent if planned else self._unplanned
        sized = tensor if like is None else like
        assert sized is not None
        counted[key.source][key.way, key.source, key.target] += sized.numel() * sized.element_size()
        self._boxes[key.target][key] = tensor
        self._bells[key.target].ring()

    def take(self, key: Key) -> Any:
        """Return the tensor, or None, sent to the key's target, and forget it; waits until it comes."""
        box = self._boxes[key.target]
        while key not in box:
            if self._is_stopped:
                raise Stopped
            self._bells[key.target].wait()
        return box.pop(key)

    def drop(self, target: int, way: str) -> None:
        """Forget what has come to a part in some way and was not taken."""
        box = self._boxes[target]
        for key in [key for key in list(box) if key.way == way]:
            del box[key]

    def stop(self) -> None:
        """Wake everyone who waits."""
        self._is_stopped = True
        for bell in self._bells:
            bell.ring()

    def clear(self) -> None:
        for box in self._boxes:
            box.clear()

    def moved_bytes(self, *, planned: bool = True) -> Counter[tuple[str, int, int]]:
        """Return the bytes sent so far by (way, source, target)."""
        return sum((counted.copy() for counted in (self._sent if planned else self._unplanned)), Counter())
