"""Hypergraphs and partitions: what is refused, and metrics against a count by hand."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hyperplace.errors import HyperplaceError
from hyperplace.values.hypergraph import Hypergraph
from hyperplace.values.partition import (
    Partition,
    balance_limit,
    connectivity,
    is_feasible,
    max_over_avg,
    volume_bytes,
    volume_per_net,
    work_per_part,
)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (([0], [], [], []), "no vertices"),
        (([0, 2], [0, 2], [1, 1], [1]), r"a pin is outside 0\.\.1"),
        (([0, 2], [0, -1], [1, 1], [1]), "a pin is outside"),
        (([0, 1], [0, 1], [1, 1], [1]), "2 offsets do not fit 1 nets, 2 pins"),
        (([1, 2], [0, 1], [1, 1], [1]), "offsets do not fit"),
        (([], [], [1], []), "0 offsets do not fit"),
        (([0, 2, 2], [0, 1], [1, 1], [1, 1]), "net 1 has no pins"),
        (([0, 2, 1, 3], [0, 1, 0], [1, 1], [1, 1, 1]), "net 1 has no pins"),
        (([0, 2], [0, 1], [1, -1], [1]), "a vertex weight is negative"),
        (([0, 2], [0, 1], [1, 1], [-1]), "a net cost is negative"),
    ],
)
def test_what_is_not_a_hypergraph(fields, message):
    with pytest.raises(HyperplaceError, match=message):
        Hypergraph(*fields)


def test_values_are_frozen_copies_and_compare_by_content():
    pins = np.array([0, 1])
    one, other = Hypergraph([0, 2], pins, [1, 1], [5]), Hypergraph([0, 2], [0, 1], [1, 1], [5])
    pins[0] = 1
    assert one == other
    assert one != Hypergraph([0, 2], [0, 1], [1, 1], [6])
    with pytest.raises(ValueError, match="read-only"):
        one.pins[0] = 1
    assert "\n" not in repr(one)


@st.composite
def placed(draw):
    num_vertices, k = draw(st.integers(1, 8)), draw(st.integers(1, 5))
    nets = draw(st.lists(st.lists(st.integers(0, num_vertices - 1), min_size=1, unique=True), max_size=8))
    offsets = np.cumsum([0, *map(len, nets)])
    weights = draw(st.lists(st.integers(0, 2**40), min_size=num_vertices, max_size=num_vertices))
    costs = draw(st.lists(st.integers(0, 2**40), min_size=len(nets), max_size=len(nets)))
    parts = draw(st.lists(st.integers(0, k - 1), min_size=num_vertices, max_size=num_vertices))
    return nets, Hypergraph(offsets, [p for net in nets for p in net], weights, costs), Partition(parts, k)


@settings(deadline=None)
@given(placed())
def test_metrics_equal_a_count_by_hand(case):
    nets, h, partition = case
    parts, costs = partition.part_of.tolist(), h.costs.tolist()
    spread = [len({parts[pin] for pin in net}) for net in nets]
    assert connectivity(h, partition).tolist() == spread
    assert volume_per_net(h, partition).tolist() == [(s - 1) * cost for s, cost in zip(spread, costs, strict=True)]
    assert volume_bytes(h, partition) == sum((s - 1) * cost for s, cost in zip(spread, costs, strict=True))
    work = [0] * partition.num_parts
    for part, weight in zip(parts, h.weights.tolist(), strict=True):
        work[part] += weight
    assert work_per_part(h, partition).tolist() == work


def test_balance():
    work = np.array([3, 1])
    assert max_over_avg(work) == 1.5
    assert balance_limit(4, 2, 0.5) == 3
    assert is_feasible(work, 0.5)
    assert not is_feasible(work, 0.4)
    assert max_over_avg(np.array([0, 0])) == 1


@pytest.mark.parametrize("parts", [[0, 2], [0, -1]])
def test_a_part_outside_is_refused(parts):
    with pytest.raises(HyperplaceError, match=r"vertex 1 is on part .*, outside 0\.\.1"):
        Partition(parts, 2)


@pytest.mark.parametrize("fields", [([0, 2], [0, 1], [0.5, 1.7], [1]), ([0, 2], [0, 1.5], [1, 1], [1])])
def test_fractions_are_not_cut_off_silently(fields):
    with pytest.raises((HyperplaceError, TypeError, ValueError)):
        Hypergraph(*fields)
