"""V-cycles from the baselines: balanced, repeatable, and better than what they start from."""

import pytest
from partition_cases import from_nets, random_hypergraph, vgg16

from hyperplace.steps.partition import partition
from hyperplace.values.partition import is_feasible, volume_bytes, work_per_part

pytestmark = pytest.mark.timeout(120)


@pytest.mark.parametrize("num_parts", [2, 8, 32])
def test_better_than_the_balanced_baselines_of_vgg16(num_parts: int) -> None:
    hypergraph = vgg16()
    found = partition(hypergraph, num_parts, 0.1, partitioner="vcycle")
    assert is_feasible(work_per_part(hypergraph, found), 0.1)
    assert found.found_by == "vcycle"
    for name in ("incremental", "layerwise", "horizontal"):
        baseline = partition(hypergraph, num_parts, 0.1, partitioner=name)
        if is_feasible(work_per_part(hypergraph, baseline), 0.1):
            assert volume_bytes(hypergraph, found) <= volume_bytes(hypergraph, baseline)


def test_the_same_seed_gives_the_same_partition() -> None:
    for hypergraph, num_parts in ((vgg16(), 8), (random_hypergraph(1), 5)):
        first, again = (partition(hypergraph, num_parts, 0.1, partitioner="vcycle", seed=3) for _ in range(2))
        assert first == again


def test_without_labels_the_vertices_are_filled_in_by_number() -> None:
    hypergraph = from_nets([[0, 2], [1, 3]], [1, 1, 1, 1], [5, 5])
    assert volume_bytes(hypergraph, partition(hypergraph, 2, 0.0, partitioner="vcycle")) == 0
