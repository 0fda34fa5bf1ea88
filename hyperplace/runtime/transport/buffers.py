"""Memory that messages are received into, used again once nobody has it any more.

New memory of some megabytes costs a page fault for every few kilobytes, again and again.
"""

from math import prod

import torch
from torch import Tensor

UNUSED = 2  # references to a buffer's memory: the buffer itself, and the storage that is asked for the number


class Buffers:
    """Buffers by their size. One thread takes them; whoever has one gives it back by forgetting it."""

    def __init__(self) -> None:
        self._of_size: dict[int, list[Tensor]] = {}

    def take(self, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        """Return a tensor whose memory nobody else sees, with whatever is in it."""
        size = prod(shape) * dtype.itemsize
        known = self._of_size.setdefault(size, [])
        found = next((buffer for buffer in known if _num_references(buffer) == UNUSED), None)
        if found is None:
            known.append(found := torch.empty(size, dtype=torch.uint8))
        # An alias: whatever keeps it, be it autograd, keeps a reference to the memory too, and is counted.
        return found.view(dtype).view(shape)

    def clear(self) -> None:
        self._of_size.clear()


def _num_references(buffer: Tensor) -> int:
    count: int = torch._C._storage_Use_Count(buffer.untyped_storage()._cdata)
    return count
