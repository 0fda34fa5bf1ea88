"""The layers of a layout: with a number per filter, so that filters can be exchanged, and then as the plan has them."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from hyperplace.values.arrays import Ints
from hyperplace.values.facts import facts_of
from hyperplace.values.graph import Graph, Layer
from hyperplace.values.layout import Layout, Plane
from hyperplace.values.plan import Owner, PlannedLayer, Shard
from hyperplace.values.ranges import ranges_of


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


def planned_layer(graph: Graph, layer: Layer, assignment: Assignment, batch: int) -> PlannedLayer:
    """Return the layer with its owners and, where it is split into kernels, its shards; all else can be derived."""
    owners = tuple(_owners(assignment))
    num_channels = layer.operands[0].num_channels if layer.operands else 0
    shards: Iterable[Shard] = ()
    if assignment.grid is not None:
        shards = _kernel_shards(assignment, batch)
    elif layer.sums_channels:  # kept together by decree, in whatever grain
        shards = (Shard(owner.part, owner.filters, ((0, num_channels),), owner.rows) for owner in owners)
    return PlannedLayer(
        name=layer.name,
        kind=layer.kind,
        rule=str(layer.rule),
        num_filters=layer.num_filters,
        num_channels=num_channels,
        owners=owners,
        shards=tuple(shards),
        reason=layer.reason,
        facts=facts_of(graph, layer),
    )


def _owners(assignment: Assignment) -> Iterator[Owner]:
    """Yield the parts of every block of rows of filters that are alike."""
    for number, pattern in enumerate(assignment.patterns.tolist()):
        filters = ranges_of(np.flatnonzero(assignment.pattern_of == number))
        for part, rows in zip(pattern, pairwise(assignment.row_edges.tolist()), strict=True):
            if filters:
                yield Owner(part, filters, rows)


def _kernel_shards(assignment: Assignment, batch: int) -> Iterator[Shard]:
    """Yield, per part, a shard for all filters of which it computes the same channels."""
    assert assignment.grid is not None
    for part in np.setdiff1d(assignment.grid, [-1]).tolist():
        patterns, pattern_of = np.unique(assignment.grid == part, axis=0, return_inverse=True)
        for number, pattern in enumerate(patterns):
            if pattern.any():
                filters = np.flatnonzero(pattern_of.ravel()[assignment.row_of] == number)
                channels = np.flatnonzero(pattern[assignment.column_of])
                yield Shard(part, ranges_of(filters), ranges_of(channels), (0, batch))
