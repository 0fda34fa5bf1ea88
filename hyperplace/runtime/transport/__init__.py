"""How messages travel between ranks.

A message has a key that both ends know beforehand, so a transport sends neither names nor shapes. Threads of one
process are in threads.py; whatever else carries tensors has the same methods.
"""

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor, device

from hyperplace.runtime.journal import Journal

FORWARD, BACKWARD = "forward", "backward"
GRADIENTS, WEIGHTS = "gradients", "weights"  # of copies: to the owner, and from it
NORMS = "norms"  # of every part's gradients, to all others


class Stopped(Exception):
    """Whoever waits is told to give up, because the run has ended or somebody else failed."""


@dataclass(frozen=True)
class Key:
    """What a message is: of which mini-batch (or update), which way, a program's message or a weight's name, whence."""

    batch: int
    way: str
    item: int | str
    source: int
    target: int


class Transport(Protocol):
    """What a rank needs of a transport."""

    @property
    def is_stopped(self) -> bool:
        """Whether the run has ended."""

    def send(self, key: Key, tensor: Tensor | None, *, like: Tensor | None = None, planned: bool = True) -> None:
        """Send a tensor, which may not be written to afterwards; no gradient, None, is counted as one of `like`'s size.

        None is not zeros: what has no gradient is left alone by optimizers, also by their weight decay.
        """

    def receive(self, key: Key) -> Tensor | None:
        """Return what was sent under a key, and forget it; wait until it comes, or raise Stopped."""

    def drop(self, target: int, way: str) -> None:
        """Forget what has come to a part in some way and was not received."""

    def writing(self, part: int, *, together: bool) -> AbstractContextManager[None]:
        """Let a part write its weights in the block, `together` only when all can; raise Stopped if nobody may."""

    def abort(self) -> None:
        """Let nobody begin to write weights, and everybody who waits give up."""


class Endpoint:
    """Sends as it is told; what it receives is brought to the rank's device, and the wait is noted."""

    def __init__(self, part: int, transport: Transport, where: device, journal: Journal) -> None:
        self.part, self.transport, self._device, self._journal = part, transport, where, journal

    def send(
        self,
        batch: int,
        way: str,
        item: int | str,
        target: int,
        tensor: Tensor | None,
        *,
        like: Tensor | None = None,
        planned: bool = True,
    ) -> None:
        self.transport.send(Key(batch, way, item, self.part, target), tensor, like=like, planned=planned)

    def receive(self, batch: int, way: str, item: int | str, source: int) -> Tensor | None:
        key = Key(batch, way, item, source, self.part)
        found = self._journal.timed("wait", lambda: self.transport.receive(key))
        return None if found is None else found.to(self._device)
