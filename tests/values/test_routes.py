"""Where parts share hosts, copies are exchanged by relays: every gradient arrives once, and cards carry far less."""

import json
from collections import Counter
from dataclasses import replace
from functools import cache

import pytest
from program_cases import planned

from hyperplace.errors import FileError, UsageError
from hyperplace.files.plan import parse_plan, plan_text
from hyperplace.files.program import parse_program
from hyperplace.models import load_model
from hyperplace.steps.capture import capture
from hyperplace.steps.emit import emit
from hyperplace.steps.lower import lower
from hyperplace.steps.place.servers import SERVERS
from hyperplace.values.cluster import parse_cluster
from hyperplace.values.derived import derived, differences
from hyperplace.values.derived.actions import parcels_of
from hyperplace.values.derived.routes import routed
from hyperplace.values.hosts import hosts_of
from hyperplace.values.loans import find_loans
from hyperplace.values.plan import Plan, Replica

HOSTS = {"2x4": (0,) * 4 + (1,) * 4, "4x2": (0, 0, 1, 1, 2, 2, 3, 3), "3 and 5": (0,) * 3 + (1,) * 5}
K = 8


@cache
def graph_of(name: str):
    loaded = load_model(name)
    return capture(loaded.module, loaded.sample)


@cache
def plan_of(hosts: tuple[int, ...], name: str = "vgg16", how: str = "dataparallel") -> Plan:
    return planned(graph_of(name), "hybrid", K, how, blocks=1, batch=16, row_blocks=K, hosts=hosts)


def filter_bytes(plan: Plan) -> int:
    return max(layer.facts.parameter_bytes // layer.num_filters for layer in plan.layers)


def card_bytes(plan: Plan, hosts: tuple[int, ...], ways=("gradients", "weights")) -> Counter[tuple[int, str]]:
    """Return what goes through every host's card, out and in."""
    found: Counter[tuple[int, str]] = Counter()
    for (way, source, target), size in plan.moved_bytes.items():
        if way in ways and hosts[source] != hosts[target]:
            found[hosts[source], "out"] += size
            found[hosts[target], "in"] += size
    return found


@pytest.mark.parametrize("name", ["vgg16", "resnet18"])
@pytest.mark.parametrize("hosts", HOSTS.values(), ids=HOSTS)
def test_the_same_bytes_by_other_ways(hosts: tuple[int, ...], name: str) -> None:
    plan, flat = plan_of(hosts, name), plan_of((), name)
    assert plan.metrics == flat.metrics
    assert [replace(one, via=None) for one in plan.replicas] == list(flat.replicas)
    assert all(one.via is None for one in flat.replicas)
    assert sum(plan.moved_bytes.values()) == sum(flat.moved_bytes.values())
    for way in ("forward", "backward"):
        assert all(plan.moved_bytes[key] == size for key, size in flat.moved_bytes.items() if key[0] == way)


@pytest.mark.parametrize("how", ["dataparallel", *SERVERS])
@pytest.mark.parametrize("hosts", HOSTS.values(), ids=HOSTS)
def test_the_gradient_of_every_holder_arrives_once(hosts: tuple[int, ...], how: str) -> None:
    """Follow every copy's gradient: it comes to its owner, and in between to at most one part, on its own host."""
    replicas = plan_of(hosts, how=how).replicas
    direct = {(one.layer, one.owner, one.filters, one.part) for one in replicas if one.via is None}
    crossing: Counter[tuple[object, ...]] = Counter()
    for one in replicas:
        if one.via is not None:
            assert hosts[one.via] == hosts[one.part] != hosts[one.owner]
            assert one.via != one.part
            assert (one.layer, one.owner, one.filters, one.via) in direct, "who relays has the same, from the owner"
        elif hosts[one.part] != hosts[one.owner]:
            crossing[one.layer, one.owner, one.filters, hosts[one.part]] += 1
    assert set(crossing.values()) == {1}, "one gradient, and one weight, between two hosts"


@pytest.mark.parametrize("hosts", HOSTS.values(), ids=HOSTS)
def test_a_card_carries_every_weight_once_each_way_for_every_other_host(hosts: tuple[int, ...]) -> None:
    """The gradients of what a host owns come from all others, and the weights of what it does not own once each.

    On h hosts that own W / h each, in and out are both (h - 1) W / h + (h - 1) W / h.
    """
    plan, num_hosts = plan_of(hosts), len(set(hosts))
    total = plan.parameter_bytes
    cards = card_bytes(plan, hosts)
    for host in range(num_hosts):
        share = hosts.count(host) / K  # of the weights, which are spread over all parts
        wanted = (num_hosts - 1) * share * total + (1 - share) * total
        assert cards[host, "in"] == pytest.approx(wanted, abs=2 * num_hosts * K * filter_bytes(plan))
        assert cards[host, "out"] == pytest.approx(wanted, abs=2 * num_hosts * K * filter_bytes(plan))
    flat = card_bytes(plan_of(()), hosts)
    for host in range(num_hosts):
        assert cards[host, "in"] < flat[host, "in"] / 1.9


@pytest.mark.parametrize("hosts", HOSTS.values(), ids=HOSTS)
def test_no_part_relays_much_more_than_another_of_its_host(hosts: tuple[int, ...]) -> None:
    plan = plan_of(hosts)
    relayed = Counter(dict.fromkeys(range(K), 0))
    for one in plan.replicas:
        if one.via is not None:
            relayed[one.via] += one.parameter_bytes
    largest = max(layer.facts.parameter_bytes for layer in plan.layers)
    for host in set(hosts):
        mine = [relayed[part] for part in range(K) if hosts[part] == host]
        assert max(mine) - min(mine) <= len(mine) * largest / K + 2 * len(mine) * filter_bytes(plan)


def brute_relays(replicas: list[Replica], hosts: tuple[int, ...]) -> int:
    """Return how many copies of the same are on a host without their owner, but for one of each."""
    return sum(
        any(
            (other.layer, other.owner, other.filters, hosts[other.part])
            == (one.layer, one.owner, one.filters, hosts[one.part])
            for other in replicas[:number]
        )
        for number, one in enumerate(replicas)
        if hosts[one.part] != hosts[one.owner]
    )


@pytest.mark.parametrize("seed", range(10))
def test_relays_of_scattered_pieces_are_as_many_as_counted(seed: int) -> None:
    hosts = (0, 1, 0, 1, 2)
    plan = planned(graph_of("lenet5"), "hybrid", 5, "scattered", blocks=3, batch=6, seed=seed, hosts=hosts)
    with_state = [one for one in plan.replicas if one.parameter_bytes]
    assert sum(one.via is not None for one in plan.replicas) == brute_relays(with_state, hosts)
    assert derived(plan) == plan


def test_copies_that_nobody_trains_and_hosts_of_one_part_have_no_relays() -> None:
    one, other = (Replica("conv", part, 0, ((0, 1),), 0, 8) for part in (1, 2))
    assert list(routed([one, other], (0, 1, 1))) == [one, other]
    alone = [replace(one, parameter_bytes=4), replace(other, parameter_bytes=4)]
    assert list(routed(alone, (0, 1, 2))) == alone
    assert [copy.via for copy in routed(alone, (0, 1, 1))] == [None, 1]


def test_files_have_hosts_and_relays_and_are_right_or_refused() -> None:
    plan = plan_of(HOSTS["2x4"], "lenet5")
    text = plan_text(plan)
    assert parse_plan(text, "plan.json") == plan
    assert '"via"' not in plan_text(plan_of((), "lenet5"))
    assert '"hosts"' not in plan_text(plan_of((), "lenet5"))
    data = json.loads(text)
    del data["settings"]["hosts"]
    with pytest.raises(FileError, match=r"via is \d instead of None"):
        parse_plan(json.dumps(data), "plan.json")
    for hosts, fault in (([0] * 7, "hosts are those of 7 parts"), ([9] * 8, "host 9 is outside 0..7")):
        data["settings"]["hosts"] = hosts
        with pytest.raises(FileError, match=fault):
            parse_plan(json.dumps(data), "plan.json")
    data["settings"]["hosts"] = list(HOSTS["4x2"])
    with pytest.raises(FileError, match="via is"):
        parse_plan(json.dumps(data), "plan.json")
    data = json.loads(text)
    for one in data["replicas"]:
        if "via" in one:
            one["via"] = 99
    with pytest.raises(FileError, match="via is 99 instead of"):
        parse_plan(json.dumps(data), "plan.json")
    assert differences(plan) == []


@pytest.mark.parametrize("hosts", [[0, 0, 1, 1], (0, 0, 1, "b"), (0, 0, 1, True), (0, 0, -1, 1), (0, 1)], ids=str)
def test_hosts_that_are_none_are_refused(hosts: object) -> None:
    with pytest.raises(UsageError, match="host"):
        replace(plan_of((), "lenet5").settings, k=4, hosts=hosts)


def test_hosts_of_a_cluster_matter_where_several_have_several_devices() -> None:
    assert hosts_of(parse_cluster("2x4"), 8) == (0, 0, 0, 0, 1, 1, 1, 1)
    assert hosts_of(parse_cluster("2x4"), 6) == (0, 0, 0, 0, 1, 1)
    assert hosts_of(parse_cluster("2x4"), 4) == ()
    assert hosts_of(parse_cluster("8x1"), 8) == ()
    assert hosts_of(parse_cluster("1x8"), 8) == ()


def test_programs_say_by_whom_copies_go_and_send_the_bytes_of_the_plan() -> None:
    graph, plan = graph_of("lenet5"), plan_of(HOSTS["3 and 5"], "lenet5")
    program = lower(graph, plan)
    assert parse_program(emit(program)) == program
    assert any(loan.via is not None for loan in find_loans(program.parts))
    moved: Counter[tuple[int, int]] = Counter()
    for parcel in parcels_of(program):
        if parcel.maker[0] != parcel.takers[0][0]:
            moved[parcel.maker[0], parcel.takers[0][0]] += parcel.num_bytes
    wanted: Counter[tuple[int, int]] = Counter()
    for (_, source, target), size in plan.moved_bytes.items():
        wanted[source, target] += size
    planned_only = sum(not message.planned for message in program.messages)
    assert {pair: size for pair, size in moved.items() if pair[1] and pair[0]} == {
        pair: size for pair, size in wanted.items() if pair[1] and pair[0]
    }, f"{planned_only} messages that bring outputs to the loss, on part 0, are no plan's"


REFUSED = {
    "itself": (1, "part 1 has a copy of .* via part 1, which has not the same"),
    "one that has none": (0, "via part 0, which has not the same straight from part 0"),
    "no part": (77, "via part 77"),
}


@pytest.mark.parametrize(("via", "fault"), REFUSED.values(), ids=REFUSED)
def test_relays_that_cannot_be_are_refused(via: int, fault: str) -> None:
    program = lower(graph_of("lenet5"), plan_of((), "lenet5"))
    part = program.parts[1]
    name, copy = next((name, one) for name, one in part.weights.items() if getattr(one, "owner", None) == 0)
    broken = replace(part, weights={**part.weights, name: replace(copy, via=via)})
    with pytest.raises(UsageError, match=fault):
        find_loans([program.parts[0], broken, *program.parts[2:]])
