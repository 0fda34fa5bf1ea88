"""Who owns replicated weights: every part its share of each layer, or the servers asked for; the bytes are the same."""

from collections import Counter
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st
from program_cases import planned

from hyperplace.models import load_model
from hyperplace.search.names import DATA_PARALLEL
from hyperplace.steps.capture import capture
from hyperplace.steps.place.servers import SERVERS
from hyperplace.values.derived import derived, differences
from hyperplace.values.plan import Plan
from hyperplace.values.ranges import Ranges, count, places, ranges_of, without

BATCH = 12


@cache
def plan_of(how: str, k: int, name: str = "vgg16") -> Plan:
    loaded = load_model(name)
    graph = capture(loaded.module, loaded.sample)
    return planned(graph, "hybrid", k, how, blocks=1, batch=BATCH, row_blocks=k)


def owned_bytes(plan: Plan) -> list[int]:
    """Return the bytes of weights that every part holds and has no copy of."""
    copies = Counter[int]()
    for replica in plan.replicas:
        copies[replica.part] += replica.parameter_bytes
    return [part.parameter_bytes - copies[number] for number, part in enumerate(plan.metrics.parts)]


def filter_bytes(plan: Plan) -> list[int]:
    return [layer.facts.parameter_bytes // layer.num_filters for layer in plan.layers]


@pytest.mark.parametrize("name", ["vgg16", "resnet18"])
@pytest.mark.parametrize("k", [2, 3, 4])
def test_data_parallel_parts_own_the_same_but_for_a_filter(name: str, k: int) -> None:
    plan = plan_of("dataparallel", k, name)
    owned = owned_bytes(plan)
    assert sum(owned) == plan.parameter_bytes
    assert max(owned) - min(owned) <= max(filter_bytes(plan))
    for way in ("gradients", "weights"):
        pairs = [plan.moved_bytes[way, p, q] for p in range(k) for q in range(k) if p != q]
        assert max(pairs) - min(pairs) <= max(filter_bytes(plan))


@pytest.mark.parametrize("k", [2, 3, 4])
@pytest.mark.parametrize("how", SERVERS)
def test_servers_move_the_same_bytes_and_keep_layers_whole(how: str, k: int) -> None:
    plan, spread = plan_of(how, k), plan_of("dataparallel", k)
    assert plan.layers == spread.layers
    assert plan.metrics.training_volume_bytes == spread.metrics.training_volume_bytes
    assert sum(plan.moved_bytes.values()) == sum(spread.moved_bytes.values())
    owners = {layer.name: {r.owner for r in plan.replicas if r.layer == layer.name} for layer in plan.layers[1:]}
    assert {len(parts) for parts in owners.values()} == {1}
    assert derived(plan) == plan


def servers_of(how: str, k: int) -> list[int]:
    """Return the owner of every layer's weights, but the input's, which has none."""
    found = {replica.layer: replica.owner for replica in plan_of(how, k).replicas}
    return [found[layer.name] for layer in plan_of(how, k).layers if layer.facts.has_state]


def test_who_serves() -> None:
    assert set(servers_of("server", 3)) == {0}
    assert servers_of("server-roundrobin", 3) == [number % 3 for number in range(16)]
    sizes = [layer.facts.parameter_bytes for layer in plan_of("server", 3).layers if layer.facts.has_state]
    load = [0, 0, 0]
    for size, server in zip(sizes, servers_of("server-greedy", 3), strict=True):
        assert server == load.index(min(load))
        load[server] += size


def test_owners_as_they_once_were_are_still_a_plan() -> None:
    """Plan files of before had one owner for all rows of a filter: the part with most, or the lowest."""
    assert differences(plan_of("server", 4)) == []


def test_fewer_filters_than_parts() -> None:
    plan = plan_of("dataparallel", 12, "lenet5")
    last = plan.layers[-1]
    assert last.num_filters == 10
    owners = {replica.owner for replica in plan.replicas if replica.layer == last.name}
    assert len(owners) == 10
    copies = sum(count(replica.filters) for replica in plan.replicas if replica.layer == last.name)
    assert copies == 10 * 11


def test_all_that_split_rows_have_a_rule_for_owners() -> None:
    assert set(SERVERS) == set(DATA_PARALLEL) - {"dataparallel"}


NUMBERS = st.sets(st.integers(0, 30))


def spans(numbers: set[int]) -> Ranges:
    return ranges_of(sorted(numbers))


@given(NUMBERS, NUMBERS, st.integers(0, 31), st.integers(0, 31))
def test_ranges_without_others_and_by_place(one: set[int], other: set[int], start: int, stop: int) -> None:
    assert without(spans(one), spans(other)) == spans(one - other)
    assert places(spans(one), start, stop) == spans(set(sorted(one)[start:stop]))
