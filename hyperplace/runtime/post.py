"""Messages between the threads of one process, counted.

A message has a key that both ends know: the mini-batch, the way it goes, the tensor's name and the two parts. `take`
waits until it is there. Mailboxes hold only what mini-batches in flight have under way, so they are bounded by those.
"""

import threading
from collections import Counter
from dataclasses import dataclass
from typing import Any

from torch import Tensor

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
    """The mailboxes of all parts."""

    def __init__(self, num_parts: int) -> None:
        self._boxes: list[dict[Key, Any]] = [{} for _ in range(num_parts)]
        self._arrived = [threading.Condition() for _ in range(num_parts)]
        self._sent: list[Counter[tuple[str, int, int]]] = [Counter() for _ in range(num_parts)]  # by sender: no lock
        self._unplanned: list[Counter[tuple[str, int, int]]] = [Counter() for _ in range(num_parts)]
        self._is_stopped = False

    def put(self, key: Key, tensor: Tensor, *, planned: bool = True) -> None:
        """Send a tensor; it may not be written to afterwards."""
        counted = self._sent if planned else self._unplanned
        counted[key.source][key.way, key.source, key.target] += tensor.numel() * tensor.element_size()
        with self._arrived[key.target]:
            self._boxes[key.target][key] = tensor
            self._arrived[key.target].notify_all()

    def take(self, key: Key) -> Tensor:
        """Return a tensor sent to the key's target, and forget it; waits until it comes."""
        with self._arrived[key.target]:
            while key not in self._boxes[key.target]:
                if self._is_stopped:
                    raise Stopped
                self._arrived[key.target].wait()
            tensor: Tensor = self._boxes[key.target].pop(key)
            return tensor

    def drop(self, target: int, way: str) -> None:
        """Forget what has come to a part in some way and was not taken."""
        with self._arrived[target]:
            box = self._boxes[target]
            self._boxes[target] = {key: tensor for key, tensor in box.items() if key.way != way}

    def stop(self) -> None:
        """Wake everyone who waits."""
        self._is_stopped = True
        for arrived in self._arrived:
            with arrived:
                arrived.notify_all()

    def clear(self) -> None:
        for box in self._boxes:
            box.clear()

    def moved_bytes(self, *, planned: bool = True) -> Counter[tuple[str, int, int]]:
        """Return the bytes sent so far by (way, source, target)."""
        return sum(self._sent if planned else self._unplanned, Counter())
