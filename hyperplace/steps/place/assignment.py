"""A layout as layers whose filters can be exchanged: a number per filter instead of blocks."""

from dataclasses import dataclass

import numpy as np

from hyperplace.values.arrays import Ints
from hyperplace.values.layout import Layout, Plane


@dataclass
class Assignment:
    """One layer's parts.

    patterns[pattern_of[f], r] is the part that owns rows row_edges[r]..row_edges[r + 1] of filter f. Where the layer
    is split into kernels, grid[row_of[f], column_of[c]] is the part that multiplies filter f with channel c (-1:
    nobody, f does not read c); otherwise the grid is None and the owner computes everything.
    """

    pattern_of: Ints
    patterns: Ints
    row_edges: Ints
    row_of: Ints
    column_of: Ints
    grid: Ints | None = None


def assignments(layout: Layout) -> dict[str, Assignment]:
    """Return the assignment of every layer."""
    return {layer: _assignment(plane, layout.kernels.get(layer)) for layer, plane in layout.owners.items()}


def _assignment(owners: Plane, kernels: Plane | None) -> Assignment:
    patterns, pattern = np.unique(owners.parts, axis=0, return_inverse=True)
    pattern_of = pattern.ravel().repeat(np.diff(owners.lines))
    if kernels is None:
        nothing = np.zeros(len(pattern_of), np.int64), np.empty(0, np.int64)
        return Assignment(pattern_of, patterns, owners.columns, *nothing)
    # Rows with the same parts get one number, and columns likewise, so that equal filters look equal.
    grid, row = np.unique(kernels.parts, axis=0, return_inverse=True)
    grid, column = np.unique(grid, axis=1, return_inverse=True)
    row_of, column_of = row.ravel().repeat(np.diff(kernels.lines)), column.ravel().repeat(np.diff(kernels.columns))
    return Assignment(pattern_of, patterns, owners.columns, row_of, column_of, grid)
