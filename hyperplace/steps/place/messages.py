"""Who needs what from whom: every transfer and reduction of a placement, derived from the shards alone."""

import numpy as np

from hyperplace.steps.place.assignment import Assignment
from hyperplace.values.graph import Graph, Layer, Operand, Reads
from hyperplace.values.plan import Range, Ranges, Reduction, Transfer
from hyperplace.values.ranges import Mask, ranges_of, rectangles


def transfers(graph: Graph, found: dict[str, Assignment], num_parts: int) -> tuple[Transfer, ...]:
    """Return the outputs that parts read and do not own: per layer and pair of parts a message per range of rows."""
    columns = len(found[graph.layers[0].name].num_rows)
    needed = {layer.name: np.zeros((num_parts, layer.num_filters, columns), bool) for layer in graph.layers}
    for layer in graph.layers:
        for operand in layer.operands:
            for part in _parts(found[layer.name]):
                _add_needs(operand, channels_read(layer, operand, found[layer.name], part), needed, part)
    messages = []
    for layer in graph.layers:
        owner, edges, learns = found[layer.name].owner, found[layer.name].row_edges, layer.name in graph.learning
        for target in range(num_parts):
            missing = needed[layer.name][target] & (owner != target)
            for source in np.unique(owner[missing]).tolist():
                for filters, rows in rectangles(missing & (owner == source), edges):
                    num_bytes = _area(filters, rows) * layer.map_bytes
                    messages.append(Transfer(layer.name, source, target, filters, rows, num_bytes, learns))
    return tuple(messages)


def _area(filters: Ranges, rows: Range) -> int:
    return sum(stop - start for start, stop in filters) * (rows[1] - rows[0])


def reductions(graph: Graph, found: dict[str, Assignment], batch: int) -> tuple[Reduction, ...]:
    """Return one message per layer and pair of parts: the partial sums of filters the target owns."""
    messages = []
    for layer in graph.layers:
        assignment = found[layer.name]
        if assignment.grid is None:
            continue
        owner, learns = assignment.owner[:, 0], layer.name in graph.learning  # kernels have all rows
        for source in np.setdiff1d(assignment.grid, [-1]).tolist():
            computes = (assignment.grid == source).any(axis=1)[assignment.row_of] & (owner != source)
            for target in np.unique(owner[computes]).tolist():
                filters = np.flatnonzero(computes & (owner == target))
                size = len(filters) * layer.partial_bytes * batch
                messages.append(Reduction(layer.name, source, target, ranges_of(filters), (0, batch), size, learns))
    return tuple(messages)


def channels_read(layer: Layer, operand: Operand, assignment: Assignment, part: int) -> Mask:
    """Return which channels of the operand, and of these which blocks of rows, the part reads for this layer."""
    if assignment.grid is not None:
        used: Mask = (assignment.grid == part).any(axis=0)
        read: Mask = used[assignment.column_of][:, None]
        return read
    mine: Mask = assignment.owner == part
    if operand.reads is Reads.SAME:
        return mine
    groups = layer.groups if operand.reads is Reads.GROUP else 1
    touched = np.logical_or.reduce(mine.reshape(groups, -1, mine.shape[1]), axis=1)
    return np.repeat(touched, operand.num_channels // groups, axis=0)


def _parts(assignment: Assignment) -> list[int]:
    """Return the parts that compute some of the layer."""
    busy = assignment.patterns if assignment.grid is None else assignment.grid
    return np.setdiff1d(busy, [-1]).tolist()  # type: ignore[no-any-return]


def _add_needs(operand: Operand, channels: Mask, needed: dict[str, Mask], part: int) -> None:
    for first, source in operand.located():
        read = channels[first : first + source.num_channels]
        by_filter = read.reshape(-1, source.width, read.shape[1]).any(axis=1)
        needed[source.layer][part, source.start : source.stop] |= by_filter
