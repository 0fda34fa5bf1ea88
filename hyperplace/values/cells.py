"""A plane (filters by rows, or filters by channels) cut into as few blocks as some pieces of it need."""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from hyperplace.errors import HyperplaceError
from hyperplace.values.arrays import Ints
from hyperplace.values.ranges import Mask, Range, Ranges, ranges_of, rectangles

MOST_BLOCKS = 2**22  # of one plane; a thousand times what a plan of a large model needs

Piece = tuple[Ranges, Ranges]


class Cells:
    """The blocks that no piece cuts: lines[i]..lines[i + 1] by columns[j]..columns[j + 1]."""

    def __init__(self, pieces: Sequence[Piece]) -> None:
        self.lines = _edges(lines for lines, _ in pieces)
        self.columns = _edges(columns for _, columns in pieces)
        if len(self.lines) * len(self.columns) > MOST_BLOCKS:
            raise HyperplaceError(
                f"a layer is cut into {len(self.lines):,} x {len(self.columns):,} pieces, more than {MOST_BLOCKS:,}; "
                "make the plan again with fewer blocks"
            )

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.lines) - 1, len(self.columns) - 1

    def counted(self, pieces: Iterable[Piece]) -> Ints:
        """Return in how many of the pieces every block is."""
        counts = np.zeros(self.shape, np.int64)
        for piece in pieces:
            for block in self._blocks(piece):
                counts[block] += 1
        return counts

    def marked(self, pieces: Iterable[Piece]) -> Mask:
        """Return which blocks are in any of the pieces."""
        marks = np.zeros(self.shape, bool)
        for piece in pieces:
            for block in self._blocks(piece):
                marks[block] = True
        return marks

    def painted(self, pieces: Iterable[tuple[int, Piece]]) -> Ints:
        """Return the part of every block, -1 where none has it."""
        parts = np.full(self.shape, -1, np.int64)
        for part, piece in pieces:
            for block in self._blocks(piece):
                parts[block] = part
        return parts

    def rectangles(self, marks: Mask) -> Iterator[tuple[Ranges, Range]]:
        """Yield the marked blocks as lines with one range of columns."""
        return rectangles(marks, self.columns, self.lines)

    def lines_of(self, blocks: Mask) -> Ranges:
        """Return the marked blocks of lines as ranges."""
        return _spans(self.lines, blocks)

    def columns_of(self, blocks: Mask) -> Ranges:
        """Return the marked blocks of columns as ranges."""
        return _spans(self.columns, blocks)

    def _blocks(self, piece: Piece) -> Iterator[tuple[slice, slice]]:
        lines, columns = piece
        spans = [slice(*np.searchsorted(self.columns, span)) for span in columns]
        for span in lines:
            rows = slice(*np.searchsorted(self.lines, span))
            yield from ((rows, column) for column in spans)


def _edges(lists: Iterable[Ranges]) -> Ints:
    return np.array(sorted({edge for ranges in lists for span in ranges for edge in span}), np.int64)


def _spans(edges: Ints, blocks: Mask) -> Ranges:
    return tuple((int(edges[start]), int(edges[stop])) for start, stop in ranges_of(np.flatnonzero(blocks)))
