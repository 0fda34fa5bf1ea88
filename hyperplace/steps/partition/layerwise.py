"""The layer-wise baseline: contiguous runs of layers, cut where the heaviest run is lightest."""

import numpy as np

from hyperplace.steps.partition.baselines import labels_of, with_inputs
from hyperplace.steps.partition.task import Task
from hyperplace.values.arrays import Ints
from hyperplace.values.hypergraph import Hypergraph

UNREACHABLE = 2**62


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
