"""The least a mini-batch takes: equal to loops found one by one, never more than a simulation takes, and by hand."""

import random
from dataclasses import replace
from itertools import pairwise

import pytest
from schedule_cases import random_program

from hyperplace.errors import UsageError
from hyperplace.steps.schedule import schedule
from hyperplace.steps.simulate import predict
from hyperplace.values.cluster import Cluster, Device, Host
from hyperplace.values.derived.pacing import pace_of
from hyperplace.values.pace import CardLoad, Change, Link, Pace, Route, bound, lags, longest_loop


def cluster_of(num_parts, rate, latency, **others):
    return Cluster(
        tuple(Host(f"h{n}", (Device(flops_per_s=1e3),), rate, rate, latency, **others) for n in range(num_parts))
    )


def test_a_chain_of_two_parts_is_as_counted_by_hand():
    """Part 0 works 2 s forward and 3 s backward, part 1 works 4 s; 10 bytes go each way at 5 bytes/s and 1 s latency.

    The loop: 2 + (1 + 2) + 4 + (1 + 2) + 3 = 15 s.
    """
    pace = Pace(
        parts=(0, 1, 0),
        work_s=(2.0, 4.0, 3.0),
        network_s=(0.0, 0.5),
        routes=(Route(1.0, 0.2, True),),
        links=(Link(0, 1, 0, 10), Link(1, 2, 0, 10), Link(0, 2)),
        returns=(),
        cards=(CardLoad("a's card, outward", 2.0),),
    )
    assert bound(pace, Change(in_flight=1)).seconds == pytest.approx(15)
    assert bound(pace, Change(in_flight=1)).binds == "parts wait for each other"
    assert bound(pace, Change(in_flight=2)).seconds == pytest.approx(7.5)
    four = bound(pace, Change(in_flight=4))
    assert (four.seconds, four.binds) == (pytest.approx(5), "part 0's work")
    assert bound(pace, Change(in_flight=1, bandwidth=2)).seconds == pytest.approx(13)
    assert bound(pace, Change(in_flight=1, latency_s=0.5)).seconds == pytest.approx(16)
    assert bound(pace, Change(in_flight=1, speed=2)).seconds == pytest.approx(10.5)
    assert dict(bound(pace, Change(speed=2)).candidates)["part 1's work"] == pytest.approx(2.5)
    slow = bound(pace, Change(bandwidth=0.1, in_flight=32))
    assert (slow.seconds, slow.binds) == (pytest.approx(20), "a's card, outward")


def test_new_weights_that_come_back_late_are_a_loop():
    """Forward on part 0, 1 s; update on part 1, 1 s; the weights take 7 s back, and part 0 does nothing with them."""
    pace = Pace((0, 1), (1.0, 1.0), (0.0, 0.0), (Route(7.0, 0.0, True),), (Link(0, 1),), (Link(1, 0, 0, 1),), ())
    assert longest_loop(pace, Change()) == pytest.approx(9)


def loops_one_by_one(pace, change):
    """Return the longest of all paths that end on the part they begin on, or with weights where they begin."""
    lag_of = {}
    for link, lag in zip(pace.links, lags(pace, pace.links, change), strict=True):
        pair = link.maker, link.taker
        lag_of[pair] = max(lag, lag_of.get(pair, -1e9))
    back = {}
    for link, lag in zip(pace.returns, lags(pace, pace.returns, change), strict=True):
        back[link.maker, link.taker] = max(lag, back.get((link.maker, link.taker), -1e9))
    best = 0.0
    todo = [[action] for action in range(len(pace.parts))]
    while todo:
        path = todo.pop()
        length = sum(pace.work_s[action] / change.speed for action in path) + sum(lag_of[p] for p in pairwise(path))
        if pace.parts[path[0]] == pace.parts[path[-1]]:
            best = max(best, length)
        if (path[-1], path[0]) in back:
            best = max(best, length + back[path[-1], path[0]])
        todo += [[*path, taker] for maker, taker in lag_of if maker == path[-1]]
    return best


def num_actions(seed, lends):
    program = random_program(seed, lends)
    return len(pace_of(program, cluster_of(len(program.parts), 1.0, 0.0)).parts)


# Of longer ones there are more paths than can be tried.
SHORT = [(seed, lends) for seed in range(24) for lends in (False, True) if 4 <= num_actions(seed, lends) <= 16]


@pytest.mark.parametrize(("seed", "lends"), SHORT)
def test_the_longest_loop_is_the_longest_of_all(seed, lends):
    program = random_program(seed, lends)
    pace = pace_of(program, cluster_of(len(program.parts), 100.0, 0.01))
    draw = random.Random(seed)
    for _ in range(3):
        change = Change(draw.uniform(0.1, 4), draw.uniform(0, 0.1), draw.uniform(0.2, 5))
        assert longest_loop(pace, change) == pytest.approx(loops_one_by_one(pace, change), rel=1e-9)


@pytest.mark.parametrize("lends", [False, True])
@pytest.mark.parametrize("seed", range(20))
def test_no_simulation_is_faster(seed, lends):
    """Within what a simulation of a few dozen mini-batches knows of the period."""
    program = random_program(seed, lends)
    for rate, latency, cost in ((1e5, 0.0, 0.0), (1e3, 1e-3, 1e-5), (50.0, 0.01, 0.0)):
        cluster = cluster_of(len(program.parts), rate, latency, send_s_per_byte=cost, receive_s_per_byte=cost)
        pace = pace_of(program, cluster)
        for in_flight in (1, 2, 5):
            found = predict(program, schedule(program, in_flight, cluster=cluster), cluster)
            assert bound(pace, Change(in_flight=in_flight)).seconds <= found.seconds * 1.04


def test_a_change_is_the_pace_of_the_changed_cluster():
    """Twice the bandwidth, half the speed and more latency: the same as a cluster that is like that."""
    program = random_program(5, True)
    before = cluster_of(len(program.parts), 200.0, 0.01)
    after = Cluster(
        tuple(
            replace(host, out_rate=400.0, in_rate=400.0, latency_s=0.04, devices=(Device(speed=0.5, flops_per_s=1e3),))
            for host in before.hosts
        )
    )
    changed = bound(pace_of(program, before), Change(2.0, 0.03, 0.5, 3))
    assert changed.seconds == pytest.approx(bound(pace_of(program, after), Change(in_flight=3)).seconds)
    assert changed.binds == bound(pace_of(program, after), Change(in_flight=3)).binds


def test_within_a_host_the_network_does_not_matter():
    program = random_program(5, True)
    host = Host("a", (Device(flops_per_s=1e3),) * len(program.parts), 100.0, 100.0, 0.01, inside_rate=1e3)
    pace = pace_of(program, Cluster((host,)))
    assert not pace.cards
    assert bound(pace, Change(0.01, 1.0)) == bound(pace, Change())


@pytest.mark.parametrize("wrong", [{"bandwidth": 0}, {"speed": -1}, {"latency_s": -1e-9}, {"in_flight": 0}])
def test_what_no_cluster_can_be_is_refused(wrong):
    with pytest.raises(UsageError, match="a factor of 0 or less"):
        Change(**wrong)
