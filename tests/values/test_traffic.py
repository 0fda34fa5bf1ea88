"""How long what parts send is on its way, worked out by hand: cards are shared, links inside a host are not."""

import pytest

from hyperplace.values.cluster import Cluster, Device, Host
from hyperplace.values.derived.actions import Parcel
from hyperplace.values.derived.traffic import card_seconds, lags_of

# Parts 0 and 1 on host a, part 2 on b, part 3 on c.
CLUSTER = Cluster(
    (
        Host("a", (Device(), Device()), 100.0, 100.0, latency_s=0.5, inside_rate=1000.0),
        Host("b", (Device(),), 100.0, 50.0),
        Host("c", (Device(),), 200.0, 100.0),
    )
)


def forward(source, target, num_bytes=100, left=0.0):
    return Parcel((source, "F", 0), ((target, "F", 0),), num_bytes, left)


def lags(*parcels, work=None):
    found = lags_of(parcels, work or {}, CLUSTER)
    return {(maker[0], taker[0]): lag for (maker, taker), lag in found.items()}


def test_one_parcel_takes_latency_and_the_slower_card():
    assert lags(forward(0, 3)) == {(0, 3): pytest.approx(1.5)}
    assert lags(forward(0, 2)) == {(0, 2): pytest.approx(2.5)}


def test_parts_of_a_host_share_its_card_on_the_way_out():
    assert lags(forward(0, 3), forward(1, 3)) == {(0, 3): pytest.approx(1.5), (1, 3): pytest.approx(2.5)}
    assert lags(forward(0, 2, 50), forward(0, 3)) == {(0, 2): pytest.approx(1.5), (0, 3): pytest.approx(2.0)}


def test_whoever_sends_to_the_same_host_shares_its_card_on_the_way_in():
    found = lags(forward(0, 3), forward(2, 3))
    assert found == {(0, 3): pytest.approx(1.5), (2, 3): pytest.approx(2.0)}


def test_inside_a_host_nothing_waits_for_others():
    assert lags(forward(0, 1), forward(1, 0)) == {(0, 1): pytest.approx(0.1), (1, 0): pytest.approx(0.1)}


def test_what_goes_while_its_maker_works_is_there_sooner_and_never_before_its_end():
    work = {(0, "F", 0): 4.0}
    assert lags(forward(0, 3, left=0.25), work=work) == {(0, 3): pytest.approx(0.5)}
    assert lags(forward(0, 3, left=0.9), work=work) == {(0, 3): 0.0}
    both = lags(forward(0, 3, left=0.25), forward(0, 3, 200, left=0.5), work=work)
    assert both == {(0, 3): pytest.approx(1.5)}, "the one that goes first, then the other"


def test_other_actions_are_another_wave_and_what_a_part_keeps_takes_no_time():
    later = Parcel((1, "B", 0), ((3, "B", 0),), 100)
    found = lags_of([forward(0, 3), later, Parcel((3, "P", 0), ((3, "F", 0),), 100)], {}, CLUSTER)
    assert found == {((0, "F", 0), (3, "F", 0)): 1.5, ((1, "B", 0), (3, "B", 0)): 1.5}
    assert lags_of([forward(0, 3)], {}, None) == {}


def test_cards_carry_what_goes_between_hosts():
    found = card_seconds([forward(0, 3), forward(1, 2), forward(0, 1), forward(3, 0)], CLUSTER)
    assert found == {(0, "out"): 2.0, (2, "in"): 1.0, (1, "in"): 2.0, (2, "out"): 0.5, (0, "in"): 1.0}
