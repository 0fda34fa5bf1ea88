"""What copies to another host cost, worked out by hand."""

from dataclasses import dataclass, field, replace

import pytest

from hyperplace.values.cluster import Cluster, Device, Host
from hyperplace.values.memory import PartMemory
from hyperplace.values.prediction import IN, OUT, Prediction
from hyperplace.values.surviving import COPY_S_PER_BYTE, survive_cost
from hyperplace.values.timeline import Timeline

CLUSTER = Cluster(tuple(Host(name, out_rate=1e8, in_rate=1e8) for name in "ab"))


@dataclass(frozen=True)
class Foreseen:
    """As much of a forecast as counts here: a second, part 0 busy for all of it, card b full for half of it outward."""

    memory: tuple[PartMemory, ...]
    seconds: float = 1.0
    prediction: Prediction = field(
        default_factory=lambda: Prediction(1.0, (1.0, 0.6), {("a", IN): 0.5, ("b", OUT): 0.5}, Timeline(2, ()))
    )


def copied(*sizes):
    return Foreseen(tuple(PartMemory(0, 0, 0, 0, 0, 0, 0, copied=size) for size in sizes))


def test_a_copy_is_made_in_line_with_the_work():
    cost = survive_cost(copied(400_000_000, 0), CLUSTER, 20)
    assert cost.seconds == pytest.approx(1 + 400e6 / 20 * COPY_S_PER_BYTE)
    assert cost.share == pytest.approx(cost.seconds - 1)
    assert cost.card_bytes == 20e6


def test_a_copy_takes_what_was_measured():
    slow = Cluster(tuple(replace(host, devices=(Device(copy_s_per_byte=1e-8),)) for host in CLUSTER.hosts))
    assert survive_cost(copied(400_000_000, 0), slow, 20).seconds == pytest.approx(1 + 400e6 / 20 * 1e-8)


def test_a_card_that_has_no_time_for_copies_binds():
    cost = survive_cost(copied(0, 2_000_000_000), CLUSTER, 20)
    assert cost.seconds == pytest.approx(0.5 + 2e9 / 20 / 1e8), "b's card, outward: half a second, and a second more"


def test_copies_that_are_rarer_cost_less():
    costs = [survive_cost(copied(10**9, 10**9), CLUSTER, every).share for every in (1, 5, 20, 100)]
    assert costs == sorted(costs, reverse=True)
    assert costs[0] > costs[-1] > 0
