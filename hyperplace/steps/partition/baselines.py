"""What a hypergraph partition is compared with; every function takes a task and returns the part of every vertex.

None of them looks at the imbalance. Input channels have no work and go where their first reader is.
"""

import numpy as np

from hyperplace.errors import UsageError
from hyperplace.steps.partition.repair import pack_in_order
from hyperplace.steps.partition.task import Task
from hyperplace.values.arrays import Ints
from hyperplace.values.hypergraph import Hypergraph, Labels


def single(task: Task) -> Ints:
    """Put everything on part 0."""
    return np.zeros(task.hypergraph.num_vertices, np.int64)


def random(task: Task) -> Ints:
    """Deal the vertices out in a random order, each to the part that is lightest then."""
    order = np.random.default_rng(task.seed).permutation(task.hypergraph.num_vertices)
    return with_inputs(
        task.hypergraph, pack_in_order(task.hypergraph.weights, order, np.zeros(task.num_parts, np.int64))
    )


def incremental(task: Task) -> Ints:
    """Fill a part up to the average, then go on to the next, layer by layer and filter by filter.

    On the fine grain kernel by kernel, and a reduction stays with the last kernel of its filters. A vertex on the
    border goes where its middle falls. Without labels the vertices are taken by number.
    """
    order, stays = _filling_order(task.hypergraph)
    weights = task.hypergraph.weights[order]
    middle = np.cumsum(weights) - weights / 2
    parts = middle * task.num_parts // max(1, task.hypergraph.total_weight)
    parts = np.minimum(parts, task.num_parts - 1).astype(np.int64)
    leader = np.maximum.accumulate(np.where(stays, 0, np.arange(len(order))))
    part_of = np.zeros(task.hypergraph.num_vertices, np.int64)
    part_of[order] = parts[leader]
    return with_inputs(task.hypergraph, part_of)


def _filling_order(hypergraph: Hypergraph) -> tuple[Ints, Ints]:
    """Return the vertices in order, and which of them stay with the one before: reductions after their kernels."""
    labels = hypergraph.labels
    if labels is None:
        return np.arange(hypergraph.num_vertices), np.zeros(hypergraph.num_vertices, np.int64)
    is_kernel = labels.channel_start >= 0
    last = labels.channel_start.max(initial=0) + 1
    channel = np.where(is_kernel, labels.channel_start, last)
    order = np.lexsort((channel, labels.filter_start, labels.layer_of))
    has_kernels = np.bincount(labels.layer_of, is_kernel, minlength=len(labels.layers)) > 0
    stays = ~is_kernel & has_kernels[labels.layer_of]
    return order, stays[order].astype(np.int64)


def horizontal(task: Task) -> Ints:
    """Split every layer's filters evenly over all parts; kernels and reductions follow their filters.

    The blocks of a layer that has fewer blocks than there are parts go to the parts that are lightest by then.
    """
    labels = labels_of(task, "horizontal")
    part_of = np.zeros(task.hypergraph.num_vertices, np.int64)
    work = np.zeros(task.num_parts, np.int64)
    for layer in range(len(labels.layers)):
        vertices = np.flatnonzero((labels.layer_of == layer) & (labels.is_input == 0))
        part_of[vertices] = _spread(labels, vertices, work)
        np.add.at(work, part_of[vertices], task.hypergraph.weights[vertices])
    return with_inputs(task.hypergraph, part_of)


def _spread(labels: Labels, vertices: Ints, work: Ints) -> Ints:
    """Return the part of every vertex of one layer, given the work of the parts so far."""
    starts, block = np.unique(labels.filter_start[vertices], return_inverse=True)
    if len(starts) < len(work):
        lightest = np.argsort(work, kind="stable")[: len(starts)]
        return lightest[block]
    num_filters = labels.filter_stop[vertices].max()
    twice_the_middle = labels.filter_start[vertices] + labels.filter_stop[vertices]
    parts: Ints = twice_the_middle * len(work) // (2 * num_filters)
    return parts


def dataparallel(task: Task) -> Ints:
    """Split the rows of every layer evenly over all parts; what has all rows goes where there is least work then."""
    labels = labels_of(task, "dataparallel")
    has_rows = labels.row_start >= 0
    num_blocks = len(np.unique(labels.row_start[has_rows]))
    batch = int(labels.row_stop.max())
    if not num_blocks or num_blocks < min(task.num_parts, batch):
        raise UsageError(
            f"dataparallel needs a block of rows for each of {task.num_parts} parts, and there are {num_blocks}; "
            f"give --grain hybrid --row-blocks {task.num_parts}"
        )
    middle = (labels.row_start + labels.row_stop) * task.num_parts // (2 * batch)
    part_of = np.where(has_rows, middle, 0)
    work = np.bincount(part_of[has_rows], task.hypergraph.weights[has_rows], minlength=task.num_parts)
    for vertex in np.flatnonzero(~has_rows).tolist():
        part_of[vertex] = int(np.argmin(work))
        work[part_of[vertex]] += task.hypergraph.weights[vertex]
    return part_of


def labels_of(task: Task, partitioner: str) -> Labels:
    """Return the labels, or say why the partitioner needs them."""
    if task.hypergraph.labels is None:
        raise UsageError(
            f"{partitioner} needs to know the layer of every vertex, and this hypergraph has no labels; "
            "build it from a model or choose another partitioner"
        )
    return task.hypergraph.labels


def with_inputs(hypergraph: Hypergraph, part_of: Ints) -> Ints:
    """Return the parts with every input channel moved to its first reader, if it has one."""
    if hypergraph.labels is None:
        return part_of
    is_input = hypergraph.labels.is_input != 0
    nobody = hypergraph.num_vertices
    readers = np.where(is_input[hypergraph.pins], nobody, hypergraph.pins)
    reader_of_net = np.full(hypergraph.num_nets, nobody)
    np.minimum.at(reader_of_net, hypergraph.net_of_pin, readers)
    first_reader = np.full(hypergraph.num_vertices, nobody)
    np.minimum.at(first_reader, hypergraph.pins, reader_of_net[hypergraph.net_of_pin])
    follows = is_input & (first_reader < nobody)
    return np.where(follows, part_of[np.where(follows, first_reader, 0)], part_of)
