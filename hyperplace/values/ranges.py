"""Sorted numbers as runs of neighbours, and cells (filters by rows) as rectangles."""

from collections.abc import Collection, Iterator
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from hyperplace.values.arrays import Ints
from hyperplace.values.plan import Range, Ranges

Mask = NDArray[np.bool_]


def ranges_of(numbers: Ints | Collection[int]) -> Ranges:
    """Return sorted numbers as runs: [0, 1, 2, 7] as ((0, 3), (7, 8))."""
    found = np.asarray(numbers, np.int64)
    runs = np.split(found, np.flatnonzero(np.diff(found) != 1) + 1)
    return tuple((int(run[0]), int(run[-1]) + 1) for run in runs if len(run))


def count(ranges: Ranges) -> int:
    """Return how many numbers there are."""
    return sum(stop - start for start, stop in ranges)


def common(one: Ranges, other: Ranges) -> Ranges:
    """Return what two sorted lists of ranges have in common."""
    pairs = ((max(a, c), min(b, d)) for a, b in one for c, d in other)
    return tuple((start, stop) for start, stop in pairs if start < stop)


def merged(ranges: Ranges) -> Ranges:
    """Return sorted ranges with neighbours made one."""
    found: list[Range] = []
    for start, stop in ranges:
        if found and found[-1][1] >= start:
            found[-1] = (found[-1][0], max(stop, found[-1][1]))
        else:
            found.append((start, stop))
    return tuple(found)


def cut_at(ranges: Ranges, edges: set[int]) -> Ranges:
    """Return the ranges cut at the edges inside them."""
    found: list[Range] = []
    for start, stop in ranges:
        found += pairwise(sorted({start, stop, *(edge for edge in edges if start < edge < stop)}))
    return tuple(found)


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
