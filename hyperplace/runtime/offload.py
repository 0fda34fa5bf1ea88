"""Keep in the host's memory what a segment saves for its backward pass, until that runs.

Autograd shows every tensor that it saves, the same one as often as operations save it. What has the same memory is
moved once, as long as nobody writes to it in between, there and back, and comes back as it was, strides and all:
kernels add in another order where these differ.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.autograd.graph import GradientEdge, get_gradient_edge
from torch.multiprocessing.reductions import StorageWeakRef

Edge = GradientEdge | None  # of what has no gradient


@dataclass
class _Memory:
    """Bytes that have been moved to the host, and back on their device while not all who saved them have had them."""

    source: StorageWeakRef  # memory that is given back keeps its name from being used again, and nothing else
    on_host: Tensor
    device: torch.device
    num_savers: int = 0
    there: torch.UntypedStorage | None = None

    def back(self) -> torch.UntypedStorage:
        found = self.there or self.on_host.to(self.device, copy=True).untyped_storage()
        self.num_savers -= 1
        self.there = found if self.num_savers > 0 else None
        return found


@dataclass(frozen=True)
class _Away:
    """A tensor whose memory has been moved to the host."""

    memory: _Memory
    dtype: torch.dtype
    offset: int
    size: torch.Size
    stride: tuple[int, ...]

    def back(self) -> Tensor:
        found = torch.empty(0, dtype=self.dtype, device=self.memory.device)
        return found.set_(self.memory.back(), self.offset, self.size, self.stride)


@contextmanager
def offloading(stays: Callable[[], Collection[Tensor]]) -> Iterator[None]:
    """Let a block save for its backward pass in the host's memory; what `stays` is on the device anyway."""
    moved: dict[tuple[int, int], _Memory] = {}

    def pack(tensor: Tensor) -> Tensor | _Away:
        # A number from Python looks like a tensor here, and kernels compute with it in the dtype of the others.
        is_number = not tensor.ndim and tensor.untyped_storage().nbytes() == tensor.element_size()
        if is_number or tensor.is_conj() or tensor.is_neg() or _name(tensor) in map(_name, stays()):
            return tensor
        key = _name(tensor), tensor._version
        if key not in moved:
            source = StorageWeakRef(tensor.untyped_storage())  # type: ignore[no-untyped-call]
            moved[key] = _Memory(source, _on_host(tensor), tensor.device)
        moved[key].num_savers += 1
        return _Away(moved[key], tensor.dtype, int(tensor.storage_offset()), tensor.size(), tensor.stride())

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
