"""Mt-KaHyPar: not repeatable, so only what holds for every run."""

import pytest
from partition_cases import MIB, vgg16

from hyperplace.steps.partition import partition
from hyperplace.values.partition import is_feasible, volume_bytes, work_per_part

pytestmark = pytest.mark.timeout(120)


@pytest.mark.parametrize(("num_parts", "most_mib"), [(2, 110), (8, 800), (64, 8500)])
def test_volume_on_vgg16(num_parts: int, most_mib: int) -> None:
    hypergraph = vgg16()
    found = partition(hypergraph, num_parts, 0.1, partitioner="mtkahypar")
    assert volume_bytes(hypergraph, found) <= most_mib * MIB
    assert is_feasible(work_per_part(hypergraph, found), 0.1)
    assert found.found_by == "mtkahypar"
