"""A layer's assignment as a planned layer: who owns its cells, who computes its kernels, and the layer's facts."""

from collections.abc import Iterable, Iterator
from itertools import pairwise

import numpy as np

from hyperplace.steps.place.assignment import Assignment
from hyperplace.values.facts import facts_of
from hyperplace.values.graph import Graph, Layer
from hyperplace.values.plan import Owner, PlannedLayer, Shard
from hyperplace.values.ranges import ranges_of


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
