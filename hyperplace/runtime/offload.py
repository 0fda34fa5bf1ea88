"""Keep in the host's memory what a segment saves for its backward pass, until that runs.

Autograd shows every tensor that it saves, the same one as often as operations save it. What has the same memory is
moved once, as long as nobody writes to it in between, and comes back as it was, strides and all: kernels add in another
order where these differ.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.autograd.graph import GradientEdge, get_gradient_edge
from torch.multiprocessing.reductions import StorageWeakRef

Edge = GradientEdge | None  # of what has no gradient


@dataclass(frozen=True)
class _Away:
    """A tensor whose memory has been moved to the host."""

    memory: Tensor  # bytes
    device: torch.device
    dtype: torch.dtype
    offset: int
    size: torch.Size
    stride: tuple[int, ...]

    def back(self) -> Tensor:
        memory = self.memory.to(self.device, copy=True).untyped_storage()
        found = torch.empty(0, dtype=self.dtype, device=self.device)
        return found.set_(memory, self.offset, self.size, self.stride)


@contextmanager
def offloading(stays: Callable[[], Collection[Tensor]]) -> Iterator[None]:
    """Let a block save for its backward pass in the host's memory; what `stays` is on the device anyway."""
    # A weak reference to memory that is given back keeps its name from being used again, and nothing else.
    moved: dict[tuple[int, int], tuple[StorageWeakRef, Tensor]] = {}

    def pack(tensor: Tensor) -> Tensor | _Away:
        storage = tensor.untyped_storage()
        if tensor.is_conj() or tensor.is_neg() or _name(tensor) in map(_name, stays()):
            return tensor
        key = _name(tensor), tensor._version
        if key not in moved:
            moved[key] = StorageWeakRef(storage), _on_host(tensor)  # type: ignore[no-untyped-call]
        _, memory = moved[key]
        offset = int(tensor.storage_offset())
        return _Away(memory, tensor.device, tensor.dtype, offset, tensor.size(), tensor.stride())

    def unpack(saved: Tensor | _Away) -> Tensor:
        return saved.back() if isinstance(saved, _Away) else saved

    with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
        yield


def _name(tensor: Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)


def _on_host(tensor: Tensor) -> Tensor:
    """Return a copy of all the memory that a tensor is in, pinned where a device can then fetch it faster."""
    storage = tensor.untyped_storage()
    whole = torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(storage)
    return torch.empty(storage.nbytes(), dtype=torch.uint8, pin_memory=tensor.is_cuda).copy_(whole)


def edges_of(results: Iterable[Tensor]) -> list[Edge]:
    """Return where the gradients of results begin: with these alone nothing of the results need be held."""
    known: dict[int, Edge] = {}
    return [known.setdefault(id(one), get_gradient_edge(one) if one.requires_grad else None) for one in results]
