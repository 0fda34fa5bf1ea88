"""Annealing from a given partition: never worse, always balanced, repeatable."""

import numpy as np
import pytest
from partition_cases import random_hypergraph

from hyperplace.steps.partition import partition
from hyperplace.steps.partition.polish import polish
from hyperplace.values.capacities import Capacities
from hyperplace.values.partition import Partition, is_feasible, volume_bytes, work_per_part


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("k", [2, 5])
def test_never_worse_and_balanced(seed: int, k: int) -> None:
    hypergraph = random_hypergraph(seed)
    start = partition(hypergraph, k, 0.3, partitioner="random", seed=seed)
    assert is_feasible(work_per_part(hypergraph, start), 0.3)
    polished = polish(hypergraph, start, Capacities.even(start.num_parts, 0.3), seed=seed)
    assert volume_bytes(hypergraph, polished) < volume_bytes(hypergraph, start), "a random start is easily improved"
    assert is_feasible(work_per_part(hypergraph, polished), 0.3)
    assert polished == polish(hypergraph, start, Capacities.even(start.num_parts, 0.3), seed=seed)


def test_finds_the_best_of_a_tiny_case() -> None:
    hypergraph = random_hypergraph(3, num_vertices=8, num_nets=9)
    start = partition(hypergraph, 2, 0.5, partitioner="random")
    every = (Partition(np.array([code >> v & 1 for v in range(8)]), 2) for code in range(2**8))
    best = min(volume_bytes(hypergraph, p) for p in every if is_feasible(work_per_part(hypergraph, p), 0.5))
    assert volume_bytes(hypergraph, polish(hypergraph, start, Capacities.even(start.num_parts, 0.5))) == best
