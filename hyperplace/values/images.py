"""Labelled images: what a model is trained on and judged by."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hyperplace.errors import HyperplaceError
from hyperplace.values.arrays import ArrayValue, Ints, frozen_ints

Pixels = NDArray[np.float32]
Shape = tuple[int, int, int]


@dataclass(frozen=True, eq=False, repr=False)
class Images(ArrayValue):
    """Pixels as they are, 0 for background, and a label 0 .. num_classes - 1 per row.

    `mean` and `std` are of all pixels of the data set: training and test images are normalised by the same two.
    """

    x: Pixels  # rows, channels, height, width
    y: Ints
    num_classes: int
    mean: float = 0.0
    std: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "x", _frozen(self.x))
        object.__setattr__(self, "y", frozen_ints(self.y))
        if faults := list(self._faults()):
            raise HyperplaceError("not labelled images: " + "; ".join(faults))

    def _faults(self) -> Iterator[str]:
        if self.x.ndim != 4 or 0 in self.x.shape[1:]:
            yield f"pixels are {_shown(self.x.shape)}, not rows x channels x height x width"
        if self.y.shape != self.x.shape[:1]:
            yield f"there are {_shown(self.y.shape)} labels for {_shown(self.x.shape[:1])} images"
        outside = self.y[(self.y < 0) | (self.y >= self.num_classes)]
        if len(outside):
            yield f"label {outside[0]} is outside 0..{self.num_classes - 1}"
        if not np.isfinite(self.x).all():
            yield "a pixel is not finite"
        if not (np.isfinite(self.mean) and 0 < self.std < np.inf):
            yield f"mean {self.mean} and std {self.std} cannot normalise anything"

    def __repr__(self) -> str:
        return f"Images({len(self):,} of {_shown(self.shape)}, {self.num_classes} classes)"

    def __len__(self) -> int:
        return len(self.y)

    @property
    def shape(self) -> Shape:
        """Channels, height, width of an image."""
        _, channels, height, width = self.x.shape
        return channels, height, width


def _frozen(values: Any) -> Pixels:
    """Return a read-only view, not a copy: a data set may be large, and it was made for this value."""
    array: Pixels = np.asarray(values, np.float32).view()
    array.setflags(write=False)
    return array


def _shown(shape: tuple[int, ...]) -> str:
    return "x".join(str(size) for size in shape)
