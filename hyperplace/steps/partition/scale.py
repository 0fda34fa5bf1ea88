"""Whole numbers the partitioners can add up: the only place where weights and costs are scaled.

Both libraries count in int32, want vertex weights from 1 up, and wrap without a word. Scaled numbers only guide
them: their answers are judged by the true weights and costs.
"""

import math
from dataclasses import dataclass

import numpy as np

from hyperplace.errors import PartitionerOverflow
from hyperplace.steps.partition.task import Task
from hyperplace.values.arrays import Ints
from hyperplace.values.hypergraph import INT32_MAX

SUM_LIMIT = 2**30  # half of int32: room for what the libraries add on the way


@dataclass(frozen=True)
class Scaled:
    """Weights from 1 up, costs from 1 up, and the epsilon that means the task's balance limit in these weights.

    Where parts have limits of their own these are in `limits`, in these weights; otherwise it is empty.
    """

    weights: Ints
    costs: Ints
    epsilon: float
    limits: Ints


def scaled(task: Task) -> Scaled:
    """Scale so that num_parts * limit and (num_parts - 1) * sum of costs stay within 2^30."""
    _check_sizes(task)
    weights, units = _scaled_weights(task)
    average = -(-int(weights.sum()) // task.num_parts)  # rounded up, as both libraries do
    epsilon = math.floor(task.limits.max() * units) / average - 1 if units else task.imbalance
    epsilon = min(max(0.0, epsilon), task.num_parts - 1.0)
    limits = np.maximum(1, np.floor(task.limits * units)).astype(np.int64)
    own = limits[:0] if task.capacities.is_even else limits
    return Scaled(weights, _scaled_costs(task.hypergraph.costs, task.num_parts), epsilon, own)


def _check_sizes(task: Task) -> None:
    hypergraph = task.hypergraph
    for what, number in (
        ("vertices", hypergraph.num_vertices * task.num_parts),
        ("pins", hypergraph.num_pins),
        ("nets", hypergraph.num_nets * task.num_parts),
    ):
        if number > SUM_LIMIT:
            raise PartitionerOverflow(
                f"{what} at k={task.num_parts} count up to {number:,}, more than the partitioner's {INT32_MAX:,}; "
                "lower --k or --blocks"
            )


def _scaled_weights(task: Task) -> tuple[Ints, float]:
    """Return the weights and the units per unit of work; zeros become 1, too light to matter beside the others."""
    weights, total = task.hypergraph.weights, task.hypergraph.total_weight
    if total == 0:
        return np.ones_like(weights), 0.0
    # An imbalance of num_parts - 1 lets one part hold everything: more means nothing.
    target = SUM_LIMIT / task.capacities.times_average.max()
    # A whole factor keeps equal sums equal, so that a perfect balance stays perfect.
    units = float(target // total) if total <= target else target / total
    return np.maximum(1, np.floor(weights * units).astype(np.int64)), units


def _scaled_costs(costs: Ints, num_parts: int) -> Ints:
    """Divide by the greatest common divisor, and further with rounding where the sum would not fit."""
    if not len(costs):
        return costs
    costs = costs // np.gcd.reduce(costs)
    largest_sum = SUM_LIMIT // num_parts
    if int(costs.sum()) <= largest_sum:
        return costs
    factor = (largest_sum - len(costs)) / float(costs.sum())
    rounded: Ints = np.maximum(1, np.floor(costs * factor).astype(np.int64))
    return rounded
