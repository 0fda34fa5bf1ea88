"""Who needs what from whom: every transfer and reduction of a placement, derived from the shards alone."""

import numpy as np
from numpy.typing import NDArray

from hyperplace.steps.place.assignment import Assignment
from hyperplace.steps.place.ranges import ranges_of
from hyperplace.values.graph import Graph, Layer, Operand, Reads
from hyperplace.values.plan import Reduction, Transfer

Mask = NDArray[np.bool_]


def transfers(graph: Graph, found: dict[str, Assignment], num_parts: int, batch: int) -> tuple[Transfer, ...]:
    """Return one message per layer and pair of parts: the outputs the target reads and does not own."""
    needed = {layer.name: np.zeros((num_parts, layer.num_filters), bool) for layer in graph.layers}
    for layer in graph.layers:
        for operand in layer.operands:
            for part in _parts(found[layer.name]):
                _add_needs(operand, channels_read(layer, operand, found[layer.name], part), needed, part)
    messages = []
    for layer in graph.layers:
        owner, learns = found[layer.name].owner, layer.name in graph.learning
        for target in range(num_parts):
            missing = needed[layer.name][target] & (owner != target)
            for source in np.unique(owner[missing]).tolist():
                filters = np.flatnonzero(missing & (owner == source))
                num_bytes = len(filters) * layer.map_bytes * batch
                messages.append(Transfer(layer.name, source, target, ranges_of(filters), num_bytes, learns))
    return tuple(messages)


def reductions(graph: Graph, found: dict[str, Assignment], batch: int) -> tuple[Reduction, ...]:
    """Return one message per layer and pair of parts: the partial sums of filters the target owns."""
    messages = []
    for layer in graph.layers:
        assignment = found[layer.name]
        if assignment.grid is None:
            continue
        learns = layer.name in graph.learning
        for source in np.setdiff1d(assignment.grid, [-1]).tolist():
            computes = (assignment.grid == source).any(axis=1)[assignment.row_of] & (assignment.owner != source)
            for target in np.unique(assignment.owner[computes]).tolist():
                filters = np.flatnonzero(computes & (assignment.owner == target))
                num_bytes = len(filters) * layer.partial_bytes * batch
                messages.append(Reduction(layer.name, source, target, ranges_of(filters), num_bytes, learns))
    return tuple(messages)


def channels_read(layer: Layer, operand: Operand, assignment: Assignment, part: int) -> Mask:
    """Return which channels of the operand the part reads for this layer."""
    if assignment.grid is not None:
        used: Mask = (assignment.grid == part).any(axis=0)
        read: Mask = used[assignment.column_of]
        return read
    mine: Mask = assignment.owner == part
    if operand.reads is Reads.SAME:
        return mine
    groups = layer.groups if operand.reads is Reads.GROUP else 1
    touched = np.logical_or.reduce(mine.reshape(groups, -1), axis=1)
    return np.repeat(touched, operand.num_channels // groups)


def _parts(assignment: Assignment) -> list[int]:
    """Return the parts that compute some of the layer."""
    busy = assignment.owner if assignment.grid is None else assignment.grid
    return np.setdiff1d(busy, [-1]).tolist()  # type: ignore[no-any-return]


def _add_needs(operand: Operand, channels: Mask, needed: dict[str, Mask], part: int) -> None:
    for first, source in operand.located():
        read = channels[first : first + source.num_channels].reshape(-1, source.width).any(axis=1)
        needed[source.layer][part, source.start : source.stop] |= read
