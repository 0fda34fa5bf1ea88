"""The general partitioners: VGG16 against the figures known for it (KaHyPar per filter, 64 blocks), balance, seeds."""

import pytest
from partition_cases import MIB, from_nets, random_hypergraph, vgg16

from hyperplace.errors import PartitionerTimeout
from hyperplace.steps.partition import partition
from hyperplace.values.partition import is_feasible, volume_bytes, work_per_part

pytestmark = pytest.mark.timeout(120)


@pytest.mark.parametrize(
    ("num_parts", "most_mib"), [(2, 98), (4, 356), (8, 650), (16, 1700), (32, 3750), (64, 7700), (128, 17400)]
)
def test_volume_of_kahypar_on_vgg16(num_parts: int, most_mib: int) -> None:
    hypergraph = vgg16()
    found = partition(hypergraph, num_parts, 0.1)
    assert volume_bytes(hypergraph, found) <= most_mib * MIB
    assert is_feasible(work_per_part(hypergraph, found), 0.1)


def test_two_parts_are_proven_optimal() -> None:
    assert volume_bytes(vgg16(), partition(vgg16(), 2, 0.1)) == 102_760_448


@pytest.mark.parametrize(("num_parts", "imbalance"), [(3, 0.01), (13, 0.01), (48, 0.03)])
def test_a_tight_imbalance_is_met_without_packing(num_parts: int, imbalance: float) -> None:
    """Packing by weight alone needs five times as much."""
    hypergraph = vgg16()
    found = partition(hypergraph, num_parts, imbalance)
    assert is_feasible(work_per_part(hypergraph, found), imbalance)
    assert volume_bytes(hypergraph, found) <= 12_000 * MIB


def test_the_same_seed_gives_the_same_partition_of_kahypar() -> None:
    first, again = (partition(random_hypergraph(1), 5, 0.1, seed=3) for _ in range(2))
    assert first == again
    assert first != partition(random_hypergraph(1), 5, 0.1, seed=4)


def test_a_time_limit_ends_it() -> None:
    with pytest.raises(PartitionerTimeout, match=r"kahypar did not end within 0.5 s at k=128"):
        partition(vgg16(), 128, 0.1, time_limit_s=0.5)


@pytest.mark.parametrize(("num_parts", "most_mib"), [(2, 110), (8, 800), (64, 8500)])
def test_volume_of_mtkahypar_on_vgg16(num_parts: int, most_mib: int) -> None:
    """Not repeatable, so only what holds for every run."""
    hypergraph = vgg16()
    found = partition(hypergraph, num_parts, 0.1, partitioner="mtkahypar")
    assert volume_bytes(hypergraph, found) <= most_mib * MIB
    assert is_feasible(work_per_part(hypergraph, found), 0.1)
    assert found.found_by == "mtkahypar"


@pytest.mark.parametrize("num_parts", [2, 8, 32])
def test_vcycles_are_better_than_the_balanced_baselines_of_vgg16(num_parts: int) -> None:
    hypergraph = vgg16()
    found = partition(hypergraph, num_parts, 0.1, partitioner="vcycle")
    assert is_feasible(work_per_part(hypergraph, found), 0.1)
    assert found.found_by == "vcycle"
    for name in ("incremental", "layerwise", "horizontal"):
        baseline = partition(hypergraph, num_parts, 0.1, partitioner=name)
        if is_feasible(work_per_part(hypergraph, baseline), 0.1):
            assert volume_bytes(hypergraph, found) <= volume_bytes(hypergraph, baseline)


def test_the_same_seed_gives_the_same_partition_of_vcycles() -> None:
    for hypergraph, num_parts in ((vgg16(), 8), (random_hypergraph(1), 5)):
        first, again = (partition(hypergraph, num_parts, 0.1, partitioner="vcycle", seed=3) for _ in range(2))
        assert first == again


def test_without_labels_vcycles_begin_with_the_vertices_filled_in_by_number() -> None:
    hypergraph = from_nets([[0, 2], [1, 3]], [1, 1, 1, 1], [5, 5])
    assert volume_bytes(hypergraph, partition(hypergraph, 2, 0.0, partitioner="vcycle")) == 0
