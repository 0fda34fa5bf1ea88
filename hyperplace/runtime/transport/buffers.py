"""Memory that messages are received into, used again once nobody has it any more.

New memory of some megabytes costs a page fault for every few kilobytes, again and again.
"""

from collections import deque
from math import prod

import torch
from torch import Tensor

UNUSED = 2  # references to a buffer's memory: the buffer itself, and the storage that is asked for the number


class Buffers:
    """Buffers by their size. One thread takes them; whoever has one gives it back by forgetting it."""

    def __init__(self) -> None:
        self._of_size: dict[int, deque[Tensor]] = {}  # the one that was taken longest ago first

    def take(self, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        """Return a tensor whose memory nobody else sees, with whatever is in it."""
        size = prod(shape) * dtype.itemsize
        known = self._of_size.setdefault(size, deque())
        found = _unused(known)
        if found is None:
            known.append(found := torch.empty(size, dtype=torch.uint8))
        # An alias: whatever keeps it, be it autograd, keeps a reference to the memory too, and is counted.
        return found.view(dtype).view(shape)

    def clear(self) -> None:
        self._of_size.clear()


def _unused(known: deque[Tensor]) -> Tensor | None:
    """Return the first buffer that nobody has, which becomes the last; None if there is none.

    Messages are mostly forgotten in the order they came in, so the first is the one: with the last one first, hundreds
    of buffers of one size would all be looked at for every message.
    """
    for _ in range(len(known)):
        known.rotate(-1)
        if _num_references(known[-1]) == UNUSED:
            return known[-1]
    return None


def _num_references(buffer: Tensor) -> int:
    count: int = torch._C._storage_Use_Count(buffer.untyped_storage()._cdata)
    return count
