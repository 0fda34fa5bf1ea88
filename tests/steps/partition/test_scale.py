"""Scaled numbers fit into the partitioners' int32 and keep the meaning of the true ones."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from partition_cases import from_nets, random_hypergraph

from hyperplace.errors import PartitionerOverflow
from hyperplace.steps.partition.scale import SUM_LIMIT, scaled
from hyperplace.steps.partition.task import Task
from hyperplace.values.partition import Partition, volume_bytes


@settings(max_examples=100, deadline=None)
@given(
    weights=st.lists(st.integers(0, 2**50), min_size=8, max_size=8),
    costs=st.lists(st.integers(1, 2**50), min_size=3, max_size=3),
    num_parts=st.integers(2, 8),
    imbalance=st.floats(0, 100),
)
def test_sums_stay_within_int32(weights: list[int], costs: list[int], num_parts: int, imbalance: float) -> None:
    numbers = scaled(Task(from_nets([[0, 1], [2, 3], [4, 5]], weights, costs), num_parts, imbalance))
    assert numbers.weights.min() >= 1
    assert numbers.costs.min() >= 1
    assert (num_parts - 1) * numbers.costs.sum() <= SUM_LIMIT
    average = -(-int(numbers.weights.sum()) // num_parts)
    assert num_parts * (1 + numbers.epsilon) * average <= SUM_LIMIT + 100
    assert numbers.epsilon >= 0


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 10_000), num_parts=st.integers(2, 9))
def test_useful_nets_have_the_same_volume(seed: int, num_parts: int) -> None:
    hypergraph = random_hypergraph(seed)
    useful = Task(hypergraph, num_parts, 0.1).with_useful_nets().hypergraph
    found = Partition(np.random.default_rng(seed).integers(0, num_parts, 60), num_parts)
    assert volume_bytes(useful, found) == volume_bytes(hypergraph, found)
    assert np.all(np.diff(useful.offsets) > 1)
    assert len(np.unique(useful.net_of_pin * 60 + useful.pins)) == useful.num_pins


def test_a_weightless_vertex_hardly_counts() -> None:
    weights = scaled(Task(from_nets([[0, 1]], [0, 3, 3], [8]), 2, 0.0)).weights
    assert weights[0] == 1
    assert weights[1] == weights[2] > 10**8


def test_costs_are_divided_by_their_common_divisor() -> None:
    hypergraph = from_nets([[0, 1], [1, 2]], [1, 1, 1], [3 * 2**40, 2**41])
    assert scaled(Task(hypergraph, 2, 0.1)).costs.tolist() == [3, 2]


def test_the_epsilon_means_the_true_limit() -> None:
    numbers = scaled(Task(from_nets([[0, 1]], [0, 3, 3, 4], [8]), 2, 0.25))
    units = numbers.weights[1] / 3
    average = -(-int(numbers.weights.sum()) // 2)
    assert (1 + numbers.epsilon) * average / units == pytest.approx(6.25, rel=1e-6)


@pytest.mark.parametrize(("weight", "cost"), [(2**62, 1), (1, 2**62)])
def test_numbers_beyond_int64_are_refused(weight: int, cost: int) -> None:
    with pytest.raises(PartitionerOverflow, match="more than 2\\^62"):
        Task(from_nets([[0, 1]], [weight, weight], [cost]), 2, 0.1)
