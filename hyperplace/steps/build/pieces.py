"""Blocks as seen by whoever reads them: runs of an operand's channels."""

from dataclasses import dataclass

import numpy as np

from hyperplace.values.arrays import Ints
from hyperplace.values.graph import Operand


@dataclass(frozen=True)
class Piece:
    """A block of a producer as a range of an operand's channels."""

    layer: str
    block: int
    start: int
    stop: int


def spans(edges: Ints) -> Ints:
    return np.column_stack([edges[:-1], edges[1:]])


def pieces_of(operand: Operand, edges: dict[str, Ints]) -> list[Piece]:
    """Return the producers' blocks that make up an operand, in the order of its channels."""
    pieces = []
    for first, source in operand.located():
        cuts = edges[source.layer]
        low, high = np.searchsorted(cuts, source.start, "right") - 1, np.searchsorted(cuts, source.stop, "left")
        for block in range(int(low), int(high)):
            start = max(int(cuts[block]), source.start) - source.start
            stop = min(int(cuts[block + 1]), source.stop) - source.start
            pieces.append(Piece(source.layer, block, first + start * source.width, first + stop * source.width))
    return pieces
