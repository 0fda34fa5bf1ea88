"""Parts with capacities of their own: the general partitioners against every partition of a small hypergraph."""

from itertools import product

import numpy as np
import pytest
from partition_cases import random_hypergraph

from hyperplace.errors import BalanceError, UsageError
from hyperplace.steps.partition import balanced, partition
from hyperplace.steps.partition.polish import polish
from hyperplace.values.capacities import Capacities
from hyperplace.values.hypergraph import Hypergraph
from hyperplace.values.partition import Partition, balance_limit, is_feasible, volume_bytes, work_per_part

UNEVEN = [(1.6, 0.6), (0.5, 1.7), (0.4, 0.9, 2.0)]


def small(seed):
    random = np.random.default_rng(seed)
    nets = [random.choice(8, random.integers(2, 4), replace=False) for _ in range(9)]
    offsets = np.cumsum([0, *map(len, nets)])
    return Hypergraph(offsets, np.concatenate(nets), random.integers(1, 5, 8), random.integers(1, 9, 9))


def best_of_all(hypergraph, capacities):
    """Return the least volume of any partition within the capacities, or inf."""
    found = (
        Partition(np.array(parts), capacities.num_parts) for parts in product(range(capacities.num_parts), repeat=8)
    )
    volumes = [volume_bytes(hypergraph, one) for one in found if capacities.admit(work_per_part(hypergraph, one))]
    return min(volumes, default=np.inf)


@pytest.mark.parametrize("partitioner", ["kahypar", "mtkahypar", "vcycle"])
@pytest.mark.parametrize("times", UNEVEN)
def test_general_partitioners_keep_the_capacities(partitioner, times):
    gaps = []
    for seed in range(3):
        hypergraph, capacities = small(seed), Capacities(np.array(times))
        best = best_of_all(hypergraph, capacities)
        found = partition(hypergraph, len(times), 0.0, capacities=capacities, partitioner=partitioner)
        assert capacities.admit(work_per_part(hypergraph, found))
        polished = polish(hypergraph, found, capacities)
        assert capacities.admit(work_per_part(hypergraph, polished))
        assert best <= volume_bytes(hypergraph, polished) <= volume_bytes(hypergraph, found)
        gaps.append(volume_bytes(hypergraph, polished) / best if best else 1.0)
    assert min(gaps) == 1.0, "annealing finds the best of a hypergraph this small from one start in three at least"


@pytest.mark.parametrize("times", UNEVEN)
def test_repair_keeps_the_capacities(times):
    for seed in range(5):
        hypergraph, capacities = random_hypergraph(seed), Capacities(np.array(times))
        found = balanced(hypergraph, 0.0, capacities)
        assert capacities.admit(work_per_part(hypergraph, found))


def test_says_so_where_nothing_can_be_met():
    hypergraph = Hypergraph([0, 2], [0, 1], [3, 3], [1])
    with pytest.raises(BalanceError, match=r"Capacities\(0.9, 1.3 of the average\) were not met at k=2"):
        partition(hypergraph, 2, 0.0, capacities=Capacities(np.array([0.9, 1.3])))
    with pytest.raises(BalanceError, match="vertex 0 alone is more than any part may hold"):
        partition(Hypergraph([0, 2], [0, 1], [9, 1], [1]), 2, 0.0, capacities=Capacities(np.array([0.9, 1.3])))
    with pytest.raises(UsageError, match="are not of k=3 parts"):
        partition(small(0), 3, 0.0, capacities=Capacities(np.array([0.9, 1.3])))


@pytest.mark.parametrize("imbalance", [0.0, 0.1, 0.37, 5.0, 1e308])
@pytest.mark.parametrize("k", [1, 2, 3, 7])
def test_even_capacities_are_the_imbalance(k, imbalance):
    capacities = Capacities.even(k, imbalance)
    assert set(capacities.of(1234567).tolist()) == {balance_limit(1234567, k, imbalance)}
    random = np.random.default_rng(k)
    for _ in range(20):
        work = random.integers(0, 50, k)
        assert capacities.admit(work) == is_feasible(work, imbalance)
    assert capacities == Capacities.shared([2.0] * k, min(imbalance, 1e300))
    assert capacities.tightest.admit(np.full(k, 7))


@pytest.mark.parametrize("times", [[], [0.9, 1.0], [-1.0, 4.0], [float("nan"), 3.0], [float("inf"), 1.0]])
def test_capacities_that_cannot_hold_everything_are_refused(times):
    with pytest.raises(UsageError, match="cannot hold all work"):
        Capacities(np.array(times))


def test_says_what_it_is():
    assert repr(Capacities.even(4, 0.1)) == "Capacities(4 x 1.1 of the average)"
    assert repr(Capacities.shared([3, 1], 0.0)) == "Capacities(1.5, 0.5 of the average)"
