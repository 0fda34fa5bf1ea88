"""A layer's assignment as owners and dense shards."""

import numpy as np

from hyperplace.steps.place.assignment import Assignment
from hyperplace.values.graph import Layer
from hyperplace.values.plan import Owner, PlannedLayer, Ranges, Shard
from hyperplace.values.ranges import ranges_of, rectangles


def planned_layer(layer: Layer, assignment: Assignment, batch: int) -> PlannedLayer:
    """Return the layer with its owners and shards."""
    owners = tuple(
        Owner(part, filters, rows)
        for part in np.unique(assignment.owner).tolist()
        for filters, rows in rectangles(assignment.owner == part, assignment.row_edges)
    )
    return PlannedLayer(
        name=layer.name,
        kind=layer.kind,
        rule=str(layer.rule),
        num_filters=layer.num_filters,
        num_channels=layer.operands[0].num_channels if layer.operands else 0,
        owners=owners,
        shards=_filter_shards(layer, owners) if assignment.grid is None else _kernel_shards(assignment, batch),
        reason=layer.reason,
    )


def _filter_shards(layer: Layer, owners: tuple[Owner, ...]) -> tuple[Shard, ...]:
    """Return a shard per piece that a part owns: its filters with every channel they read."""
    if not layer.operands:
        return ()
    return tuple(Shard(owner.part, owner.filters, _channels(layer, owner.filters), owner.rows) for owner in owners)


def _channels(layer: Layer, filters: Ranges) -> Ranges:
    """Return the channels of the first operand that the filters read."""
    operand = layer.operands[0]
    read = np.zeros(operand.num_channels, bool)
    for start, stop in filters:
        low, high = layer.channels_read(operand, start, stop)
        read[low:high] = True
    return ranges_of(np.flatnonzero(read))


def _kernel_shards(assignment: Assignment, batch: int) -> tuple[Shard, ...]:
    """Return, per part, a shard for all filters of which it computes the same channels: few and dense."""
    assert assignment.grid is not None
    shards = []
    for part in np.setdiff1d(assignment.grid, [-1]).tolist():
        patterns, pattern_of = np.unique(assignment.grid == part, axis=0, return_inverse=True)
        for number, pattern in enumerate(patterns):
            if pattern.any():
                filters = np.flatnonzero(pattern_of.ravel()[assignment.row_of] == number)
                channels = np.flatnonzero(pattern[assignment.column_of])
                shards.append(Shard(part, ranges_of(filters), ranges_of(channels), (0, batch)))
    return tuple(shards)
