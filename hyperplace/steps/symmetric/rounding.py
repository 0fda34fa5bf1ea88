"""Shares between 0 and 1 as whole filters, within the limits of their parts."""

import numpy as np

from hyperplace.values.arrays import Floats, Ints
from hyperplace.values.runs import Runs


def rounded(runs: Runs, shares: Floats, limits: Floats) -> Ints | None:
    """Return whole filters near the shares, on no part that had none, or None where the limits cannot be kept."""
    shares = np.where(shares < 1e-6, 0.0, shares)
    exact = shares / shares.sum(axis=1, keepdims=True) * runs.sizes[:, None]
    filters = np.floor(exact + 1e-9).astype(np.int64)
    load: Floats = runs.work @ filters
    for run in np.argsort(-runs.work, kind="stable").tolist():  # the heaviest filters first, while there is room
        missing = int(runs.sizes[run] - filters[run].sum())
        for _ in range(missing):
            part = _part_for_one(runs, shares, exact, filters, run, load, limits)
            if part < 0:
                return None
            filters[run, part] += 1
            load[part] += runs.work[run]
    return filters if np.all(load <= limits) else None


def _part_for_one(
    runs: Runs, shares: Floats, exact: Floats, filters: Ints, run: int, load: Floats, limits: Floats
) -> int:
    """Return the open part with room for one more filter that lacks most of its share; -1 where there is none."""
    lack = np.where((shares[run] > 0) & (load + runs.work[run] <= limits), exact[run] - filters[run], -np.inf)
    best = int(np.argmax(lack))
    return best if np.isfinite(lack[best]) else -1
