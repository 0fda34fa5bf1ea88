"""Sorted numbers as runs of neighbours, and cells as rectangles."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from hyperplace.values.arrays import Ints
from hyperplace.values.plan import Range, Ranges

Mask = NDArray[np.bool_]


def ranges_of(numbers: Ints) -> Ranges:
    """Return [0, 1, 2, 7] as ((0, 3), (7, 8))."""
    breaks = np.flatnonzero(np.diff(numbers) != 1) + 1
    runs = np.split(numbers, breaks)
    return tuple((int(run[0]), int(run[-1]) + 1) for run in runs if len(run))


def rectangles(cells: Mask, row_edges: Ints) -> Iterator[tuple[Ranges, Range]]:
    """Yield the marked cells (filters by blocks of rows), each once, as filters with one range of rows.

    Filters with the same marks come together, and so do those that only share a range of rows.
    """
    patterns, pattern_of = np.unique(cells, axis=0, return_inverse=True)
    patterns_of: dict[Range, list[int]] = {}
    for number, pattern in enumerate(patterns):
        for start, stop in ranges_of(np.flatnonzero(pattern)):
            patterns_of.setdefault((int(row_edges[start]), int(row_edges[stop])), []).append(number)
    for rows, numbers in sorted(patterns_of.items()):
        yield ranges_of(np.flatnonzero(np.isin(pattern_of.ravel(), numbers))), rows
