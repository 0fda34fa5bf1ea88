"""Baselines against hand-counted examples and brute force."""

from itertools import combinations_with_replacement

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from partition_cases import MIB, chain, from_nets, random_hypergraph, vgg16

from hyperplace.errors import UsageError
from hyperplace.steps.partition import PARTITIONERS, partition
from hyperplace.steps.partition.baselines import best_runs
from hyperplace.values.hypergraph import Hypergraph, Labels
from hyperplace.values.partition import Partition, max_over_avg, volume_bytes, work_per_part

NEEDS_ROWS = PARTITIONERS["dataparallel"]
BASELINES = [name for name, find in PARTITIONERS.items() if "kahypar" not in name and find is not NEEDS_ROWS]


def small() -> Hypergraph:
    """Input of 2, then layers a (4 filters of work 3), b (2 of 2), c (4 of 1)."""
    return chain(["x", "a", "b", "c"], [2, 4, 2, 4], [2, 4, 2, 4], [0, 3, 2, 1], [8, 4, 2, 1])


def fine() -> Hypergraph:
    """One layer of 2 filters by 2 channels: inputs 0 1, kernels 2 3 4 5, reductions 6 7."""
    labels = Labels(
        layers=("x", "a"),
        layer_of=np.array([0, 0, 1, 1, 1, 1, 1, 1]),
        filter_start=np.array([0, 1, 0, 0, 1, 1, 0, 1]),
        filter_stop=np.array([1, 2, 1, 1, 2, 2, 1, 2]),
        channel_start=np.array([-1, -1, 0, 1, 0, 1, -1, -1]),
        channel_stop=np.array([-1, -1, 1, 2, 1, 2, -1, -1]),
        is_input=np.array([1, 1, 0, 0, 0, 0, 0, 0]),
        net_layer=np.array([0, 0, 1, 1]),
        net_is_fold=np.array([0, 0, 1, 1]),
    )
    nets = [[0, 2, 4], [1, 3, 5], [2, 3, 6], [4, 5, 7]]
    return from_nets(nets, [0, 0, 4, 4, 4, 4, 1, 1], [1, 1, 1, 1], labels)


def parts(hypergraph: Hypergraph, name: str, num_parts: int) -> list[int]:
    return partition(hypergraph, num_parts, 0.1, partitioner=name).part_of.tolist()


def test_single_puts_everything_on_part_0() -> None:
    assert parts(small(), "single", 3) == [0] * 12


def test_layerwise_by_hand() -> None:
    # work of a, b, c is 12, 4, 4: a | b c, and the inputs go with a
    assert parts(small(), "layerwise", 2) == [0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1]
    assert max(parts(small(), "layerwise", 7)) < 3


def test_layerwise_prefers_the_cheaper_of_equally_good_cuts() -> None:
    hypergraph = chain(["x", "a", "b", "c"], [1, 1, 1, 1], [1, 1, 1, 1], [0, 2, 1, 2], [0, 7, 5, 0])
    assert parts(hypergraph, "layerwise", 2) == [0, 0, 0, 1]


@settings(max_examples=150, deadline=None)
@given(
    layers=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=7),
    num_parts=st.integers(1, 5),
)
def test_layerwise_equals_brute_force(layers: list[tuple[int, int]], num_parts: int) -> None:
    work = np.array([w for w, _ in layers])
    cut_bytes = np.array([0] + [b for _, b in layers[1:]])

    def judge(run_of: np.ndarray) -> tuple[int, int]:
        starts = np.flatnonzero(np.diff(run_of)) + 1
        return int(np.bincount(run_of, work).max()), int(cut_bytes[starts].sum())

    best = min(judge(np.array(runs)) for runs in combinations_with_replacement(range(num_parts), len(work)))
    found = best_runs(work, cut_bytes, num_parts)
    assert found.max() < num_parts
    assert np.all(np.diff(found) >= 0)
    assert judge(found) == best


def test_horizontal_by_hand() -> None:
    # a and c have 4 blocks, 2 on each part; so has b with 1 and 1; inputs follow filter 0 of a
    assert parts(small(), "horizontal", 2) == [0, 0, 0, 0, 1, 1, 0, 1, 0, 0, 1, 1]
    # b's 2 blocks go to the lightest of 3 parts: a's filters 0 | 1 2 | 3 by their middles 0.5 1.5 2.5 3.5 of 4
    assert parts(small(), "horizontal", 3) == [0, 0, 0, 1, 1, 2, 0, 2, 0, 1, 1, 2]


def test_horizontal_on_the_fine_grain_keeps_a_filter_together() -> None:
    assert parts(fine(), "horizontal", 2) == [0, 0, 0, 0, 1, 1, 0, 1]


def test_incremental_by_hand() -> None:
    # total 20, average 10: a's filters 3 + 3 + 3, the fourth has its middle at 10.5
    assert parts(small(), "incremental", 2) == [0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1]


def test_incremental_on_the_fine_grain_goes_kernel_by_kernel() -> None:
    # total 18; order 2 3 6 4 5 7; thirds of 6: middles 2 6 (8.5) 11 15 (17.5); reductions with the last kernel
    assert parts(fine(), "incremental", 3) == [0, 1, 0, 1, 1, 2, 1, 2]


@pytest.mark.parametrize(
    ("num_parts", "mib", "balance"),
    [(2, 101, 1.0), (4, 408, 1.0), (8, 714, 1.01), (16, 1736, 1.02), (32, 3886, 1.02), (128, 15237, 1.2)],
)
def test_incremental_on_vgg16(num_parts: int, mib: int, balance: float) -> None:
    hypergraph = vgg16()
    found = partition(hypergraph, num_parts, 0.1, partitioner="incremental")
    assert volume_bytes(hypergraph, found) / MIB == pytest.approx(mib, abs=1)
    assert max_over_avg(work_per_part(hypergraph, found)) == pytest.approx(balance, abs=0.01)


def test_random_is_balanced_and_follows_its_seed() -> None:
    hypergraph = vgg16()
    first, again = (partition(hypergraph, 8, 0.1, partitioner="random", seed=5) for _ in range(2))
    assert first == again
    assert first != partition(hypergraph, 8, 0.1, partitioner="random", seed=6)
    assert max_over_avg(work_per_part(hypergraph, first)) < 1.1


@pytest.mark.parametrize("name", BASELINES)
@pytest.mark.parametrize("num_parts", [2, 3, 64, 128])
def test_every_vertex_has_a_part_and_inputs_sit_with_a_reader(name: str, num_parts: int) -> None:
    found = partition(vgg16(), num_parts, 0.1, partitioner=name)
    assert isinstance(found, Partition)
    assert len(found.part_of) == 838
    assert found.found_by == name
    assert set(found.part_of[:3]) == {found.part_of[3]}


@pytest.mark.parametrize("name", ["layerwise", "horizontal"])
def test_labels_are_asked_for_where_needed(name: str) -> None:
    with pytest.raises(UsageError, match=f"{name} needs to know the layer"):
        partition(random_hypergraph(0), 2, 0.1, partitioner=name)


@pytest.mark.parametrize("name", ["single", "incremental", "random"])
def test_labels_are_not_asked_for_elsewhere(name: str) -> None:
    assert len(partition(random_hypergraph(0), 2, 0.1, partitioner=name).part_of) == 60
