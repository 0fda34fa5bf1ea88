"""Sorted numbers as runs of neighbours, and cells (filters by rows) as rectangles.

Everything here takes time and memory by how many ranges there are, never by how long they are: a range in a file may
be as long as its writer likes.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from hyperplace.errors import UsageError
from hyperplace.values.arrays import Ints

Range = tuple[int, int]
Ranges = tuple[Range, ...]
Mask = NDArray[np.bool_]


def ranges_of(numbers: Ints | Collection[int]) -> Ranges:
    """Return sorted numbers as runs: [0, 1, 2, 7] as ((0, 3), (7, 8))."""
    found = np.asarray(numbers, np.int64)
    if not len(found):
        return ()
    ends = np.flatnonzero(np.diff(found) != 1)
    starts, stops = found[np.append(0, ends + 1)], found[np.append(ends, -1)] + 1
    return tuple(zip(starts.tolist(), stops.tolist(), strict=True))


def parse_ranges(text: str, size: int) -> Ranges:
    """Return `0:32+40:48` as ranges, and `:` as all of a dimension of that size."""
    if text == ":":
        return ((0, size),)
    if not re.fullmatch(r"\d+:\d+(\+\d+:\d+)*", text):
        raise UsageError(f"index {text!r} is not written like 0:32 or 3:6+8:9")
    ranges = tuple((int(start), int(stop)) for start, stop in (span.split(":") for span in text.split("+")))
    if any(not 0 <= start < stop <= size for start, stop in ranges):
        raise UsageError(f"index {text!r} is outside a dimension of size {size}")
    return ranges


def count(ranges: Ranges) -> int:
    """Return how many numbers there are."""
    return sum(stop - start for start, stop in ranges)


def common(one: Ranges, other: Ranges) -> Ranges:
    """Return what two sorted lists of ranges have in common."""
    found: list[Range] = []
    i = j = 0
    while i < len(one) and j < len(other):
        start, stop = max(one[i][0], other[j][0]), min(one[i][1], other[j][1])
        if start < stop:
            found.append((start, stop))
        if one[i][1] < other[j][1]:
            i += 1
        else:
            j += 1
    return tuple(found)


def merged(ranges: Ranges) -> Ranges:
    """Return sorted ranges with neighbours made one."""
    found: list[Range] = []
    for start, stop in ranges:
        if found and found[-1][1] >= start:
            found[-1] = (found[-1][0], max(stop, found[-1][1]))
        else:
            found.append((start, stop))
    return tuple(found)


def union(lists: Iterable[Ranges]) -> Ranges:
    """Return what is in any of the lists."""
    return merged(tuple(sorted(span for ranges in lists for span in ranges)))


def without(ranges: Ranges, others: Ranges) -> Ranges:
    """Return what of some sorted ranges is in none of the others, sorted too."""
    if not ranges:
        return ()
    starts = (ranges[0][0], *(stop for _, stop in others))
    stops = (*(start for start, _ in others), ranges[-1][1])
    return common(ranges, tuple(gap for gap in zip(starts, stops, strict=True) if gap[0] < gap[1]))


def places(ranges: Ranges, start: int, stop: int) -> Ranges:
    """Return the numbers that are in these places among all numbers of the ranges: 2..4 of ((0, 3), (7, 9)) is 2, 7."""
    found: list[Range] = []
    at = 0
    for low, high in ranges:
        inner = max(low, low + start - at), min(high, low + stop - at)
        if inner[0] < inner[1]:
            found.append(inner)
        at += high - low
    return tuple(found)


def cut_at(ranges: Ranges, edges: set[int]) -> Ranges:
    """Return the ranges cut at the edges inside them."""
    found: list[Range] = []
    for start, stop in ranges:
        found += pairwise(sorted({start, stop, *(edge for edge in edges if start < edge < stop)}))
    return tuple(found)


def rectangles(
    cells: Mask, row_edges: Ints | Sequence[int], filter_edges: Ints | Sequence[int] | None = None
) -> Iterator[tuple[Ranges, Range]]:
    """Yield the marked cells (blocks of filters by blocks of rows), each once, as filters with one range of rows.

    Filters with the same marks come together, and so do those that only share a range of rows: however finely the
    blocks are cut, the same cells give the same rectangles. A block is one filter where no `filter_edges` are given.
    """
    edges = range(len(cells) + 1) if filter_edges is None else filter_edges
    if cells.shape[1] == 1:  # rows are together, as in most layers: what follows would take its time for nothing
        yield from _in_one_column(cells[:, 0], (int(row_edges[0]), int(row_edges[1])), edges)
        return
    patterns, pattern_of = np.unique(cells, axis=0, return_inverse=True)
    patterns_of: dict[Range, list[int]] = {}
    for number, pattern in enumerate(patterns):
        for start, stop in ranges_of(np.flatnonzero(pattern)):
            patterns_of.setdefault((int(row_edges[start]), int(row_edges[stop])), []).append(number)
    for rows, numbers in sorted(patterns_of.items()):
        yield from _in_one_column(np.isin(pattern_of.ravel(), numbers), rows, edges)


def _in_one_column(marks: Mask, rows: Range, edges: Ints | Sequence[int]) -> Iterator[tuple[Ranges, Range]]:
    if blocks := ranges_of(np.flatnonzero(marks)):
        yield tuple((int(edges[start]), int(edges[stop])) for start, stop in blocks), rows
