"""How messages travel between ranks.

A message has a key that both ends know beforehand, so a transport sends neither names nor shapes. Threads of one
process are in threads.py, processes of several hosts in distributed.py.
"""

from collections import Counter
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from torch import Tensor, device

from hyperplace.runtime.journal import Journal

if TYPE_CHECKING:
    from hyperplace.runtime.commands import Command

FORWARD, BACKWARD = "forward", "backward"
GRADIENTS, WEIGHTS = "gradients", "weights"  # of copies: to the owner, and from it
NORMS = "norms"  # of every part's gradients, to all others
LOSSES = "losses"  # of mini-batches, to all other processes


Moved = Counter[tuple[str, int, int]]  # bytes by way, source and target


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

    def announce(self, command: "Command") -> None:
        """Prepare for what a command will bring; called before the ranks have it."""

    def spread(self, batch: int, loss: Tensor) -> bool:
        """Tell other processes a loss; return whether it is to be asked for, here too, once its mini-batch is done."""

    def loss(self, batch: int) -> Tensor | None:
        """Return the loss of a mini-batch that is done here; None where it was known at once."""

    def writing(self, part: int, *, together: bool) -> AbstractContextManager[None]:
        """Let a part write its weights in the block, `together` only when all can; raise Stopped if nobody may."""

    def wait_until_written(self, limit_s: float) -> bool:
        """Wait until no part here writes its weights, once aborted; return whether that is so."""

    def has_sent_all(self) -> bool:
        """Say whether nothing from here is on its way to other processes."""

    def waits_in_vain(self, part: int) -> bool:
        """Say whether a part, though all who wait were told to give up, will never hear of it."""

    def abort(self) -> None:
        """Let nobody begin to write weights, and everybody who waits give up; may be called again."""

    def clear(self) -> None:
        """Forget all that was not received."""

    def moved_bytes(self, *, planned: bool = True) -> Moved:
        """Return the bytes that parts here have sent so far by (way, source, target)."""


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
        # Contiguous, as it comes out of a network: kernels add in another order where strides differ, and whatever the
        # transport, the bits are to be the same.
        whole = None if tensor is None else tensor.contiguous()
        self.transport.send(Key(batch, way, item, self.part, target), whole, like=like, planned=planned)

    def receive(self, batch: int, way: str, item: int | str, source: int) -> Tensor | None:
        key = Key(batch, way, item, source, self.part)
        found = self._journal.waited(lambda: self.transport.receive(key))
        return None if found is None else found.to(self._device)
