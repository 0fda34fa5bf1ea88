"""Counts as places: which filters of a run each part gets, so that tied runs lie as much as possible on each other.

Only runs read channel by channel care. Runs tied to each other form a tree as a rule (the adds of a residual stage and
the convolutions that feed them); laying each run along one that already lies makes every tie as good as it can be.
"""

from collections import deque

import numpy as np

from hyperplace.values.arrays import Ints
from hyperplace.values.layout import Layout, Plane
from hyperplace.values.runs import Runs, Shares


def arrange(runs: Runs, shares: Shares, batch: int) -> Layout:
    """Return the owner of every filter of every layer, for all rows of the batch."""
    mates = runs.tied.reversed()
    owners: dict[int, Ints] = {}
    for first in range(len(runs.layers)):
        if first in owners:
            continue
        owners[first] = in_order(shares.filters[first])
        queue = deque([first])
        while queue:
            run = queue.popleft()
            for other in (*runs.tied[run], *mates[run]):
                if other not in owners:
                    owners[other] = along(stretched(owners[run], int(runs.sizes[other])), shares.filters[other])
                    queue.append(other)
    planes = {run: Plane.by_lines(owner, batch) for run, owner in owners.items()}
    return laid_out(runs, planes, shares.filters.shape[1], shares.found_by)


def in_order(counts: Ints) -> Ints:
    """Return the owners where each part gets its count, one part after the other."""
    return np.repeat(np.arange(len(counts)), counts)


def stretched(owner: Ints, size: int) -> Ints:
    """Return the owners of the same channels seen by a run of another size (several features per filter)."""
    return owner[np.arange(size) * len(owner) // size]


def along(beside: Ints, counts: Ints) -> Ints:
    """Give each part its count, first where the run beside is on that part too, then wherever there is room."""
    owner = np.full(len(beside), -1, np.int64)
    left = counts.copy()
    for part in np.flatnonzero(counts).tolist():
        kept = np.flatnonzero(beside == part)[: counts[part]]
        owner[kept] = part
        left[part] -= len(kept)
    owner[owner < 0] = in_order(left)
    return owner


def laid_out(runs: Runs, planes: dict[int, Plane], num_parts: int, found_by: str) -> Layout:
    """Return the layout in which every run has its plane."""
    found: dict[str, list[Plane]] = {}
    for run, layer in enumerate(runs.layers):
        found.setdefault(layer, []).append(planes[run])
    return Layout({layer: Plane.stacked(pieces) for layer, pieces in found.items()}, num_parts, found_by=found_by)


def counted(runs: Runs, layout: Layout) -> Shares:
    """Return a layout that splits no rows as counts again."""
    owners = {layer: plane.part_of_line for layer, plane in layout.owners.items()}
    rows = [
        np.bincount(owners[layer][start : start + size], minlength=layout.num_parts)
        for layer, start, size in zip(runs.layers, runs.start.tolist(), runs.sizes.tolist(), strict=True)
    ]
    return Shares(np.array(rows), layout.found_by)
