"""The base of the generated classes: one part of a model on one device."""

from typing import ClassVar

import torch
from torch import Tensor

from hyperplace.runtime.table import Piece, Segment


class Part:
    """Tables of what a part has and does; generated classes fill them and add a method per segment.

    While a segment runs, every name in `weights` and `buffers` is an attribute with the part's slice, as the
    mini-batch at hand sees it.
    """

    weights: ClassVar[dict[str, Piece]] = {}
    buffers: ClassVar[dict[str, Piece]] = {}
    segments: ClassVar[tuple[Segment, ...]] = ()

    def __init__(self, device: str = "cpu") -> None:
        self.device = torch.device(device)
        self.training = True
        self.generator = torch.Generator(device=self.device)  # for dropout

    def weights_of(self, segment: int) -> tuple[str, ...]:
        """Return the weights a segment's method uses; those that no method names may be used by any."""
        names = [set(getattr(type(self), one.name).__code__.co_names) for one in self.segments]
        unnamed = set(self.weights) - set().union(*names)
        return tuple(name for name in self.weights if name in names[segment] | unnamed)

    def see(self, tensors: dict[str, Tensor]) -> None:
        """Make the tensors attributes."""
        self.__dict__.update(tensors)
