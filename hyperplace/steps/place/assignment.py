"""A partition read back as layers: which part owns every cell, which part computes every kernel."""

from dataclasses import dataclass

import numpy as np

from hyperplace.values.arrays import Ints
from hyperplace.values.graph import Graph
from hyperplace.values.hypergraph import Labels
from hyperplace.values.partition import Partition


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

    @property
    def owner(self) -> Ints:
        """The part of every filter (line) and block of rows (column)."""
        return self.patterns[self.pattern_of]

    @property
    def num_rows(self) -> Ints:
        """The number of rows of every block of rows."""
        return np.diff(self.row_edges)


def assignments(graph: Graph, labels: Labels, partition: Partition, batch: int) -> dict[str, Assignment]:
    """Return the assignment of every layer."""
    row_edges = np.unique(np.concatenate([[0, batch], labels.row_start[labels.row_start >= 0]]))
    bounds = np.searchsorted(labels.layer_of, np.arange(len(graph.layers) + 1))
    found = {}
    for number, layer in enumerate(graph.layers):
        vertices = np.arange(bounds[number], bounds[number + 1])
        is_kernel = labels.channel_start[vertices] >= 0
        found[layer.name] = _assignment(labels, partition.part_of, vertices[~is_kernel], row_edges)
        if is_kernel.any():
            num_channels = layer.operands[0].num_channels
            _add_grid(found[layer.name], labels, partition.part_of, vertices[is_kernel], num_channels)
    return found


def _assignment(labels: Labels, part_of: Ints, cells: Ints, row_edges: Ints) -> Assignment:
    """Return the owners of a layer's blocks; a block's vertices follow each other, one or one per block of rows."""
    starts, first = np.unique(labels.filter_start[cells], return_index=True)
    owner = np.empty((len(starts), len(row_edges) - 1), np.int64)
    for block, vertices in enumerate(np.split(cells, first[1:])):
        owner[block] = part_of[vertices]
    patterns, pattern = np.unique(owner, axis=0, return_inverse=True)
    pattern_of = np.repeat(pattern.ravel(), (labels.filter_stop - labels.filter_start)[cells[first]])
    return Assignment(pattern_of, patterns, row_edges, np.zeros(len(pattern_of), np.int64), np.empty(0, np.int64))


def _add_grid(assignment: Assignment, labels: Labels, part_of: Ints, kernels: Ints, num_channels: int) -> None:
    rows, row = np.unique(labels.filter_start[kernels], return_inverse=True)
    columns, column = np.unique(labels.channel_start[kernels], return_inverse=True)
    grid = np.full((len(rows), len(columns)), -1, np.int64)
    grid[row, column] = part_of[kernels]
    assignment.row_of = np.searchsorted(rows, np.arange(len(assignment.pattern_of)), "right") - 1
    assignment.column_of = np.searchsorted(columns, np.arange(num_channels), "right") - 1
    assignment.grid = grid
    _merge_equal(assignment)


def _merge_equal(assignment: Assignment) -> None:
    """Give rows with the same parts one number, and columns likewise, so that equal filters look equal."""
    assert assignment.grid is not None
    grid, row = np.unique(assignment.grid, axis=0, return_inverse=True)
    grid, column = np.unique(grid, axis=1, return_inverse=True)
    assignment.grid = grid
    assignment.row_of = row.ravel()[assignment.row_of]
    assignment.column_of = column.ravel()[assignment.column_of]
