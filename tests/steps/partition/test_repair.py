"""A repaired partition is within the limit where packing can do it, and a good one is left alone."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from partition_cases import from_nets, random_hypergraph, vgg16

from hyperplace.steps.partition.baselines import incremental
from hyperplace.steps.partition.repair import _extra_bytes, packed, repaired
from hyperplace.steps.partition.task import Task
from hyperplace.values.partition import Partition, volume_bytes, work_per_part


def heaviest(task: Task, part_of: np.ndarray) -> int:
    return int(work_per_part(task.hypergraph, Partition(part_of, task.num_parts)).max())


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000), num_parts=st.integers(2, 9), imbalance=st.floats(0.05, 0.5))
def test_repair_meets_the_limit_wherever_packing_does(seed: int, num_parts: int, imbalance: float) -> None:
    task = Task(random_hypergraph(seed), num_parts, imbalance).with_useful_nets()
    if heaviest(task, packed(task)) > task.limits.max():
        return
    start = np.random.default_rng(seed).integers(0, num_parts, task.hypergraph.num_vertices)
    once = repaired(task, start)
    assert heaviest(task, once) <= max(task.limits.max(), heaviest(task, start))
    assert heaviest(task, repaired(task, packed(task))) <= task.limits.max()
    assert np.array_equal(once, repaired(task, start))


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_everything_on_one_part_is_spread(seed: int) -> None:
    task = Task(random_hypergraph(seed), 4, 0.2).with_useful_nets()
    assert heaviest(task, repaired(task, np.zeros(60, np.int64))) <= task.limits.max()


def test_a_feasible_partition_is_left_as_it_is() -> None:
    task = Task(random_hypergraph(3), 4, 0.2).with_useful_nets()
    part_of = packed(task)
    assert np.array_equal(repaired(task, part_of), part_of)


def test_the_vertex_that_costs_least_is_moved() -> None:
    # 0, 1, 2 are on part 0, one too many; only vertex 2 already has its neighbour on part 1
    hypergraph = from_nets([[0, 1], [2, 3]], [1, 1, 1, 1], [100, 100])
    assert repaired(Task(hypergraph, 2, 0.0), np.array([0, 0, 0, 1])).tolist() == [0, 0, 1, 1]


def test_an_exchange_helps_where_no_move_fits() -> None:
    hypergraph = from_nets([[0, 1]], [5, 3, 4, 4], [1])
    part_of = repaired(Task(hypergraph, 2, 0.0), np.array([0, 1, 0, 1]))
    assert np.bincount(part_of, [5, 3, 4, 4]).tolist() == [8, 8]


@pytest.mark.timeout(30)
def test_exchanges_end_where_the_limit_is_no_whole_number() -> None:
    """Rounding noise in the squared overloads once made two parts swap the same vertices for ever."""
    task = Task(vgg16(), 101, 0.05)
    repaired(task.with_useful_nets(), incremental(task))


def test_extra_bytes_equal_a_recount() -> None:
    task = Task(random_hypergraph(7), 4, 0.1).with_useful_nets()
    hypergraph, part_of = task.hypergraph, packed(task)
    before = volume_bytes(hypergraph, Partition(part_of, 4))
    vertices = np.flatnonzero(part_of == 2)
    extra = _extra_bytes(hypergraph, part_of, vertices, 4)
    for row, vertex in enumerate(vertices):
        for target in (0, 1, 3):
            moved = part_of.copy()
            moved[vertex] = target
            assert extra[row, target] == volume_bytes(hypergraph, Partition(moved, 4)) - before
