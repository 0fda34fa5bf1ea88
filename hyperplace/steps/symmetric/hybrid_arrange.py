"""Counts as places: which filters or rows of a run each part gets, so that neighbours lie on each other.

Runs split by rows lie along any neighbour split by rows, runs split by filters along those tied to them channel by
channel. Each is laid along one that already lies, heavy links first: a chain loses nothing, a join may lose a little.
"""

import heapq

import numpy as np

from hyperplace.steps.symmetric.arrange import along, in_order, laid_out, stretched
from hyperplace.values.arrays import Ints
from hyperplace.values.layout import Layout, Plane
from hyperplace.values.modes import HybridRuns, ModeShares


def arrange_modes(hybrid: HybridRuns, shares: ModeShares) -> Layout:
    """Return the owner of every filter (line) and row (column) of every layer."""
    links = _links(hybrid, shares.by_rows)
    units, laid = hybrid.units(shares.by_rows), dict[int, Ints]()
    for first in np.argsort(-hybrid.whole_bytes, kind="stable").tolist():
        heap: list[tuple[float, int, int]] = [(0.0, first, first)]
        while heap:
            _, run, beside = heapq.heappop(heap)
            if run in laid:
                continue
            counts = shares.counts[run]
            laid[run] = along(stretched(laid[beside], int(units[run])), counts) if beside in laid else in_order(counts)
            for weight, other in links[run]:
                if other not in laid:
                    heapq.heappush(heap, (-weight, other, run))
    planes = {
        run: Plane.by_columns(owner, int(hybrid.runs.sizes[run]))
        if shares.by_rows[run]
        else Plane.by_lines(owner, hybrid.batch)
        for run, owner in laid.items()
    }
    return laid_out(hybrid.runs, planes, shares.counts.shape[1], shares.found_by)


def _links(hybrid: HybridRuns, by_rows: Ints) -> list[list[tuple[float, int]]]:
    """Return for every run the (bytes, run) of those that should lie on it."""
    links: list[list[tuple[float, int]]] = [[] for _ in by_rows]
    for run, weight in enumerate(hybrid.whole_bytes.tolist()):
        tied = hybrid.runs.tied[run]
        for other in (*tied, *hybrid.runs.readers[run]):
            if by_rows[run] == by_rows[other] and (by_rows[run] or other in tied):
                links[run].append((weight, other))
                links[other].append((weight, run))
    return links
