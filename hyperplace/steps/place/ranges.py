"""Sorted numbers as runs of neighbours."""

import numpy as np

from hyperplace.values.arrays import Ints
from hyperplace.values.plan import Ranges


def ranges_of(numbers: Ints) -> Ranges:
    """Return [0, 1, 2, 7] as ((0, 3), (7, 8))."""
    breaks = np.flatnonzero(np.diff(numbers) != 1) + 1
    runs = np.split(numbers, breaks)
    return tuple((int(run[0]), int(run[-1]) + 1) for run in runs if len(run))
