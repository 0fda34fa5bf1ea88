"""The least an iteration takes: by hand, near a simulation where nothing queues, and never more than one takes."""

import random
from dataclasses import replace

import pytest
from schedule_cases import random_program

from hyperplace.errors import UsageError
from hyperplace.steps.schedule import schedule
from hyperplace.steps.simulate import predict
from hyperplace.values.cluster import Cluster, Device, Host
from hyperplace.values.derived.pacing import sync_pace_of
from hyperplace.values.pace import CardLoad, Change, Link, Route
from hyperplace.values.sync_pace import CHAIN, SyncPace, sync_bound


def cluster_of(num_parts, rate, latency=0.0, **others):
    return Cluster(
        tuple(Host(f"h{n}", (Device(flops_per_s=1e3),), rate, rate, latency, **others) for n in range(num_parts))
    )


def by_hand():
    """Part 0: 2 s forward, 4 s backward, 1 s update; part 1: 6 s at once; 10 bytes each way at 5 bytes/s, 1 s late."""
    return SyncPace(
        parts=(0, 1, 0, 0),
        work_s=(2.0, 6.0, 4.0, 1.0),
        least_s=(0.1, 0.1),
        network_s=(0.0, 0.5),
        routes=(Route(1.0, 0.2, True),),
        orders=(((0, 0), (2, 1)), ((1, 0),)),
        updates=(3,),
        links=(Link(0, 1, 0, 10), Link(1, 2, 0, 10), Link(0, 2)),
        returns=(Link(3, 0, 0, 20),),
        cards=(CardLoad("a's card, outward", 2.0),),
    )


def test_two_parts_are_as_counted_by_hand():
    """One piece: 2 + (1 + 2) + 6 + (1 + 2) + 4 + 1 update + (1 + 4) new weights = 24 s.

    Two: part 0 runs both forward, 1 s each, and what comes after the first is 1 s of latency and 1 s of bytes; part 1
    works 3..6 and 6..9; the second comes back at 11, runs backward until 13, and the weights are there at 13 + 1 + 5.
    """
    one = sync_bound(by_hand(), Change())
    assert (one.seconds, one.binds) == (pytest.approx(24), CHAIN)
    assert sync_bound(by_hand(), Change(micro_batches=2)).seconds == pytest.approx(19)
    assert dict(one.candidates)["part 0's work"] == pytest.approx(7)
    assert dict(one.candidates)["part 1's work"] == pytest.approx(6.5)
    assert sync_bound(by_hand(), Change(latency_s=1)).seconds == pytest.approx(27)
    assert sync_bound(by_hand(), Change(bandwidth=2)).seconds == pytest.approx(20)
    assert sync_bound(by_hand(), Change(speed=2)).seconds == pytest.approx(17.5)
    slow = sync_bound(replace(by_hand(), cards=(CardLoad("card", 50.0),)), Change())
    assert (slow.seconds, slow.binds) == (50, "card")
    many = dict(sync_bound(by_hand(), Change(micro_batches=100)).candidates)
    assert many["part 0's work"] == pytest.approx(100 * 0.2 + 1), "an action takes a tenth of a second however small"


@pytest.mark.parametrize("lends", [False, True])
@pytest.mark.parametrize("seed", range(16))
def test_without_a_network_it_is_nearly_the_simulation(seed, lends):
    program = random_program(seed, lends)
    cluster = cluster_of(len(program.parts), float("inf"))
    order = schedule(program, 4, is_sync=True, cluster=cluster)
    pace = sync_pace_of(program, order, cluster)
    for pieces in (1, 2, 5):
        found, least = (
            predict(program, order, cluster, micro_batches=pieces),
            sync_bound(pace, Change(micro_batches=pieces)),
        )
        # Loops over several parts, and weights that are needed within a pass, may take a little longer.
        assert 0.99 * found.seconds <= least.seconds <= found.seconds * (1 + 1e-9)


@pytest.mark.parametrize(("lends", "hosts"), [(False, ()), (True, ()), (True, (0, 0, 1, 1))])
@pytest.mark.parametrize("seed", range(16))
def test_no_simulation_is_faster(seed, lends, hosts):
    """With two devices on a host one of them adds up gradients: a page of such a plan in sync was a KeyError."""
    program = random_program(seed, lends, hosts)
    for rate, latency, cost in ((1e5, 0.0, 0.0), (1e3, 1e-3, 1e-5), (50.0, 0.01, 0.0)):
        cluster = cluster_of(len(program.parts), rate, latency, send_s_per_byte=cost, receive_s_per_byte=cost)
        order = schedule(program, 3, is_sync=True, cluster=cluster)
        pace = sync_pace_of(program, order, cluster)
        for pieces in (1, 2, program.batch):
            if program.batch % pieces == 0:  # otherwise micro-batches are of unequal size
                found = predict(program, order, cluster, micro_batches=pieces)
                assert sync_bound(pace, Change(micro_batches=pieces)).seconds <= found.seconds * (1 + 1e-9)


def test_a_change_is_the_pace_of_the_changed_cluster():
    program, draw = random_program(5, True), random.Random(0)
    before = cluster_of(len(program.parts), 200.0, 0.01)
    order = schedule(program, 3, is_sync=True, cluster=before)
    for _ in range(5):
        fast, late, speed = draw.uniform(0.1, 8), draw.uniform(0, 0.1), draw.uniform(0.2, 5)
        after = Cluster(
            tuple(
                replace(
                    host,
                    out_rate=200.0 * fast,
                    in_rate=200.0 * fast,
                    latency_s=0.01 + late,
                    devices=(Device(speed=speed, flops_per_s=1e3),),
                )
                for host in before.hosts
            )
        )
        changed = sync_bound(sync_pace_of(program, order, before), Change(fast, late, speed, micro_batches=2))
        direct = sync_bound(sync_pace_of(program, order, after), Change(micro_batches=2))
        assert changed.seconds == pytest.approx(direct.seconds)
        assert changed.binds == direct.binds


def test_no_micro_batch_is_refused():
    with pytest.raises(UsageError, match="nothing in flight"):
        Change(micro_batches=0)
