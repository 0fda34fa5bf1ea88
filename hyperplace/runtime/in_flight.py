"""A mini-batch in flight on a part: what it leaves behind going forward, and needs going back."""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from hyperplace.runtime.commands import Batch
from hyperplace.runtime.weights import Version


@dataclass
class InFlight:
    """A mini-batch on its way through a part."""

    batch: Batch
    version: Version  # of the weights
    # By name what the part keeps, by number what it has received.
    values: dict[str | int, Tensor] = field(default_factory=dict)
    gradients: dict[str | int, Tensor] = field(default_factory=dict)
    runs: dict[int, tuple[list[Tensor], list[Tensor]]] = field(default_factory=dict)  # arguments and results
    output_gradients: list[Tensor | None] = field(default_factory=list)
    num_backward: int = 0


class Roots:
    """What a backward pass starts from: a tensor given to several takers has the sum of their gradients."""

    def __init__(self) -> None:
        self._gradients: dict[int, tuple[Tensor, Tensor]] = {}

    def add(self, result: Tensor, gradient: Tensor | None) -> None:
        if gradient is None or not result.requires_grad:
            return
        known = self._gradients.get(id(result))
        self._gradients[id(result)] = (result, gradient if known is None else known[1] + gradient)

    def backward(self) -> None:
        if self._gradients:
            tensors, gradients = zip(*self._gradients.values(), strict=True)
            torch.autograd.backward(tensors, gradients)
