"""A layer's assignment as owners and dense shards."""

import numpy as np

from hyperplace.steps.place.assignment import Assignment
from hyperplace.steps.place.messages import channels_read
from hyperplace.steps.place.ranges import ranges_of
from hyperplace.values.graph import Layer
from hyperplace.values.plan import Owner, PlannedLayer, Shard


def planned_layer(layer: Layer, assignment: Assignment, batch: int) -> PlannedLayer:
    """Return the layer with its owners and shards."""
    owners = tuple(
        Owner(part, ranges_of(np.flatnonzero(assignment.owner == part)))
        for part in np.unique(assignment.owner).tolist()
    )
    shards = _kernel_shards if assignment.grid is not None else _filter_shards
    return PlannedLayer(
        name=layer.name,
        kind=layer.kind,
        rule=str(layer.rule),
        num_filters=layer.num_filters,
        num_channels=layer.operands[0].num_channels if layer.operands else 0,
        owners=owners,
        shards=shards(layer, assignment, owners, batch),
        reason=layer.reason,
    )


def _filter_shards(layer: Layer, assignment: Assignment, owners: tuple[Owner, ...], batch: int) -> tuple[Shard, ...]:
    """Return a shard per owner: its filters with every channel they read."""
    if not layer.operands:
        return ()
    return tuple(
        Shard(owner.part, owner.filters, ranges_of(np.flatnonzero(read)), (0, batch))
        for owner in owners
        for read in [channels_read(layer, layer.operands[0], assignment, owner.part)]
    )


def _kernel_shards(layer: Layer, assignment: Assignment, owners: tuple[Owner, ...], batch: int) -> tuple[Shard, ...]:
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
