"""The forward and backward pass of a mini-batch on a part: what one leaves for the other, and where a NaN began."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.autograd.graph import GradientEdge
from torch.utils._python_dispatch import TorchDispatchMode

from hyperplace.runtime.commands import Batch
from hyperplace.runtime.offload import Edge
from hyperplace.runtime.weights import Version

Root = Tensor | Edge  # a result, or where its gradient begins


@dataclass
class InFlight:
    """A mini-batch on its way through a part."""

    batch: Batch
    version: Version  # of the weights
    # By name what the part keeps, by number what it has received.
    values: dict[str | int, Tensor] = field(default_factory=dict)
    gradients: dict[str | int, Tensor] = field(default_factory=dict)
    runs: dict[int, tuple[list[Tensor], Sequence[Root]]] = field(default_factory=dict)  # arguments and results
    buffers: dict[int, dict[str, Tensor]] = field(default_factory=dict)  # as segments saw them that will run again
    output_gradients: list[Tensor | None] = field(default_factory=list)
    num_backward: int = 0


@contextmanager
def nothing_saved() -> Iterator[None]:
    """Let a block save nothing for a backward pass, which there will not be.

    Without gradients its results would not say whether they learn, and torch may choose other kernels.
    """
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: None, lambda nothing: nothing):
        yield


class Roots:
    """What a backward pass starts from: a tensor given to several takers has the sum of their gradients."""

    def __init__(self) -> None:
        self._gradients: dict[int, tuple[Tensor | GradientEdge, Tensor]] = {}

    def add(self, result: Root, gradient: Tensor | None) -> None:
        if gradient is None or result is None or (isinstance(result, Tensor) and not result.requires_grad):
            return
        known = self._gradients.get(id(result))
        self._gradients[id(result)] = (result, gradient if known is None else known[1] + gradient)

    def backward(self) -> None:
        if self._gradients:
            tensors, gradients = zip(*self._gradients.values(), strict=True)
            torch.autograd.backward(tensors, gradients)


def check_finite(results: list[Tensor], again: Callable[[], object]) -> None:
    """Raise FloatingPointError if a result is infinite or NaN; `again` is run to see where that began."""
    if all(_is_finite(result) for result in results):
        return
    with torch.no_grad(), _Watch():  # type: ignore[no-untyped-call]
        again()
    raise FloatingPointError("a value is infinite or not a number")


def _is_finite(value: Any) -> bool:
    if not isinstance(value, Tensor) or not (value.is_floating_point() or value.is_complex()):
        return True
    return bool(torch.isfinite(value).all())


class _Watch(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Raise at the first operation whose result is not finite."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if not all(_is_finite(value) for value in (result if isinstance(result, tuple | list) else [result])):
            raise FloatingPointError(f"{func} gives a value that is infinite or not a number")
        return result
