"""A partition read back as layers: which part owns every filter, which part computes every kernel."""

from dataclasses import dataclass

import numpy as np

from hyperplace.values.arrays import Ints
from hyperplace.values.graph import Graph
from hyperplace.values.hypergraph import Labels
from hyperplace.values.partition import Partition


@dataclass
class Assignment:
    """One layer's parts.

    owner[f] is the part that owns filter f. Where the layer is split into kernels, grid[row_of[f], column_of[c]] is the
    part that multiplies filter f with channel c (-1: nobody, f does not read c); otherwise the grid is None and
    the owner computes everything.
    """

    owner: Ints
    row_of: Ints
    column_of: Ints
    grid: Ints | None = None


def assignments(graph: Graph, labels: Labels, partition: Partition) -> dict[str, Assignment]:
    """Return the assignment of every layer."""
    bounds = np.searchsorted(labels.layer_of, np.arange(len(graph.layers) + 1))
    found = {}
    for number, layer in enumerate(graph.layers):
        vertices = np.arange(bounds[number], bounds[number + 1])
        is_kernel = labels.channel_start[vertices] >= 0
        found[layer.name] = _assignment(layer.num_filters, labels, partition.part_of, vertices[~is_kernel])
        if is_kernel.any():
            num_channels = layer.operands[0].num_channels
            _add_grid(found[layer.name], labels, partition.part_of, vertices[is_kernel], num_channels)
    return found


def _assignment(num_filters: int, labels: Labels, part_of: Ints, blocks: Ints) -> Assignment:
    sizes = labels.filter_stop[blocks] - labels.filter_start[blocks]
    owner = np.repeat(part_of[blocks], sizes)
    assert len(owner) == num_filters, "blocks cover every filter once, in order"
    return Assignment(owner, np.zeros(num_filters, np.int64), np.empty(0, np.int64))


def _add_grid(assignment: Assignment, labels: Labels, part_of: Ints, kernels: Ints, num_channels: int) -> None:
    rows, row = np.unique(labels.filter_start[kernels], return_inverse=True)
    columns, column = np.unique(labels.channel_start[kernels], return_inverse=True)
    grid = np.full((len(rows), len(columns)), -1, np.int64)
    grid[row, column] = part_of[kernels]
    assignment.row_of = np.searchsorted(rows, np.arange(len(assignment.owner)), "right") - 1
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
