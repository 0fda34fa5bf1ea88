"""What a hypergraph partition is compared with; every function takes a task and returns the part of every vertex.

None of them looks at the imbalance. Input channels have no work and go where their first reader is.
"""

import numpy as np

from hyperplace.errors import UsageError
from hyperplace.steps.partition.repair import pack_in_order
from hyperplace.steps.partition.task import Task
from hyperplace.values.arrays import Ints
from hyperplace.values.hypergraph import Hypergraph, Labels

UNREACHABLE = 2**62


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


def layerwise(task: Task) -> Ints:
    """Give every part one run of layers, in the labels' (topological) order.

    The heaviest run is as light as can be; among such cuts, the fewest bytes cross them. Parts may stay empty.
    """
    labels = labels_of(task, "layerwise")
    computes = np.flatnonzero(labels.is_input == 0)
    layers, position = np.unique(labels.layer_of[computes], return_inverse=True)
    position_of = np.full(task.hypergraph.num_vertices, -1)
    position_of[computes] = position
    work = np.zeros(len(layers), np.int64)
    np.add.at(work, position, task.hypergraph.weights[computes])
    cut_bytes = _cut_bytes(task.hypergraph, position_of, len(layers))
    part_of = np.zeros(task.hypergraph.num_vertices, np.int64)
    part_of[computes] = best_runs(work, cut_bytes, task.num_parts)[position]
    return with_inputs(task.hypergraph, part_of)


def _cut_bytes(hypergraph: Hypergraph, position_of: Ints, num_layers: int) -> Ints:
    """Return the bytes that cross a cut before every layer: the nets with layers on both sides of it.

    A net over a whole run is counted at both ends of the run, once too often; for a chain of layers it is exact.
    """
    read = position_of[hypergraph.pins] >= 0
    nets, positions = hypergraph.net_of_pin[read], position_of[hypergraph.pins[read]]
    first = np.full(hypergraph.num_nets, num_layers)
    last = np.full(hypergraph.num_nets, -1)
    np.minimum.at(first, nets, positions)
    np.maximum.at(last, nets, positions)
    crosses = last > first
    change = np.zeros(num_layers + 1, np.int64)
    np.add.at(change, first[crosses] + 1, hypergraph.costs[crosses])
    np.subtract.at(change, last[crosses] + 1, hypergraph.costs[crosses])
    return np.cumsum(change)[:num_layers]


def best_runs(work: Ints, cut_bytes: Ints, num_parts: int) -> Ints:
    """Return the run of every layer: least bottleneck first, then least bytes over the cuts; exact.

    A dynamic program over prefixes of the layers; num_parts * layers^2 steps.
    """
    ends = np.concatenate(([0], np.cumsum(work)))
    run = _run_weights(ends)
    fits = run <= _least_bottleneck(run, num_parts)
    least = np.full(len(ends), UNREACHABLE)  # of every prefix, in exactly so many runs
    least[0] = 0
    cuts, totals = [], []
    for _ in range(num_parts):
        bytes_so_far = np.minimum(least + np.append(cut_bytes, 0), UNREACHABLE)
        choices = np.where(fits, bytes_so_far[None, :], UNREACHABLE)
        cuts.append(choices.argmin(axis=1))
        least = choices.min(axis=1)
        totals.append(int(least[-1]))
    return _runs_from_cuts(cuts[: int(np.argmin(totals)) + 1], len(work))


def _run_weights(ends: Ints) -> Ints:
    """Return the weight of the run of layers m .. i - 1 at [i, m]; unreachable where that is no run."""
    number = np.arange(len(ends))
    return np.where(number[None, :] < number[:, None], ends[:, None] - ends[None, :], UNREACHABLE)


def _least_bottleneck(run: Ints, num_parts: int) -> int:
    """Return the least possible weight of the heaviest of at most num_parts runs."""
    best = run[:, 0].copy()  # of every prefix, in one run
    best[0] = 0
    for _ in range(num_parts - 1):
        best = np.minimum(best, np.maximum(best[None, :], run).min(axis=1))
    return int(best[-1])


def _runs_from_cuts(cuts: list[Ints], num_layers: int) -> Ints:
    """Walk the chosen cuts back from the last layer and number the runs."""
    run_of, end = np.zeros(num_layers, np.int64), num_layers
    for number in reversed(range(len(cuts))):
        start = int(cuts[number][end])
        run_of[start:end] = number
        end = start
    return run_of
