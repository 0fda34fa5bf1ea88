"""The base of the generated classes: one part of a model on one device."""

from typing import ClassVar

import torch
from torch import Tensor

from hyperplace.values.program import PartProgram, Piece, Segment, rows_at


class Part:
    """Tables of what a part has and does; generated classes fill them and add a method per segment.

    While a segment runs, every name in `weights` and `buffers` is an attribute with the part's slice, as the
    mini-batch at hand sees it, and `step` says which layer is being computed. Rows of the batch are numbered as
    planned; a mini-batch of another size is cut at the same shares.
    """

    holds: ClassVar[dict[str, str]] = {}
    weights: ClassVar[dict[str, Piece]] = {}
    buffers: ClassVar[dict[str, Piece]] = {}
    segments: ClassVar[tuple[Segment, ...]] = ()

    def __init__(self, device: str = "cpu", batch: int = 1) -> None:
        self.device = torch.device(device)
        self.batch = batch  # rows that the program was planned for
        self.num_rows = batch  # rows of the mini-batch at hand
        self.training = True
        self.generator = torch.Generator(device=self.device)  # for dropout
        self.step: tuple[str, str] = ("", "")  # the layer at hand, and which of its filters and rows

    @classmethod
    def table(cls) -> PartProgram:
        """Return the tables as a value."""
        return PartProgram(cls.weights, cls.buffers, cls.segments, cls.holds)

    def rows(self, start: int, stop: int, of: int = 0) -> slice:
        """Return where planned rows of the mini-batch at hand are in a tensor that begins with row `of`."""
        return slice(self.count(of, start), self.count(of, stop))

    def count(self, start: int, stop: int) -> int:
        """Return how many rows of the mini-batch at hand stand for planned rows."""
        return rows_at((start, stop), self.num_rows, self.batch)

    def see(self, tensors: dict[str, Tensor]) -> None:
        """Make the tensors attributes."""
        self.__dict__.update(tensors)
