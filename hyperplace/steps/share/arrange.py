"""Counts as places: which filters of a run each part gets, so that tied runs lie as much as possible on each other.

Only runs read channel by channel care. Runs tied to each other form a tree as a rule (the adds of a residual stage and
the convolutions that feed them); laying each run along one that already lies makes every tie as good as it can be.
"""

from collections import deque

import numpy as np

from hyperplace.values.arrays import Ints
from hyperplace.values.runs import Runs, Shares


def arrange(runs: Runs, shares: Shares) -> dict[str, Ints]:
    """Return the owner of every filter of every layer."""
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
    return _by_layer(runs, owners)


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


def _by_layer(runs: Runs, owners: dict[int, Ints]) -> dict[str, Ints]:
    found: dict[str, list[Ints]] = {}
    for run, layer in enumerate(runs.layers):
        found.setdefault(layer, []).append(owners[run])
    return {layer: np.concatenate(pieces) for layer, pieces in found.items()}


def counted(runs: Runs, owners: dict[str, Ints], num_parts: int, found_by: str) -> Shares:
    """Return owners as counts again."""
    rows = [
        np.bincount(owners[layer][start : start + size], minlength=num_parts)
        for layer, start, size in zip(runs.layers, runs.start.tolist(), runs.sizes.tolist(), strict=True)
    ]
    return Shares(np.array(rows), found_by)
