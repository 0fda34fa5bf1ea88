"""The pace of a program on a cluster: which actions wait for which, over which route, and what each card carries."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from graphlib import TopologicalSorter
from typing import NamedTuple

from hyperplace.values.cluster import Cluster
from hyperplace.values.derived.actions import Node, Parcel, closing_of, durations, least_work, needs_of, parcels_of
from hyperplace.values.derived.traffic import card_seconds, seconds
from hyperplace.values.pace import CardLoad, Link, Pace, Route
from hyperplace.values.prediction import WAYS
from hyperplace.values.program import Program
from hyperplace.values.schedule import Schedule
from hyperplace.values.sync_pace import SyncPace

Pair = tuple[int, int]  # of hosts


class Sent(NamedTuple):
    """A parcel on its way to one taker."""

    num_bytes: int
    left: float
    into: float


def pace_of(program: Program, cluster: Cluster) -> Pace:
    """Return what bounds the period of the asynchronous schedule on a cluster."""
    needs, parcels = needs_of(program), parcels_of(program)
    order = tuple(TopologicalSorter({node: sorted(needs[node]) for node in sorted(needs)}).static_order())
    work = seconds(program, durations(program, needs), cluster)
    number = {node: place for place, node in enumerate(order)}
    routes = _Routes(cluster)
    links = {Link(number[need], number[node]) for node in order for need in needs[node]}
    links |= set(_links([one for one in parcels if one.weight is None], number, routes))
    returns = set(_links([one for one in parcels if one.weight is not None], number, routes))
    return Pace(
        parts=tuple(node[0] for node in order),
        work_s=tuple(work[node] for node in order),
        network_s=tuple(_network_seconds(parcels, part, cluster) for part in range(len(program.parts))),
        routes=tuple(routes.found),
        links=tuple(sorted(links)),
        returns=tuple(sorted(returns)),
        cards=_cards(parcels, cluster),
    )


def sync_pace_of(program: Program, schedule: Schedule, cluster: Cluster) -> SyncPace:
    """Return what bounds an iteration of the synchronous schedule on a cluster, whatever its micro-batches."""
    needs, parcels = needs_of(program, is_sync=True), parcels_of(program)
    closing = closing_of(program)
    order = (*sorted(needs), *closing)
    work = seconds(program, durations(program, order), cluster)
    least = [cluster.devices[p].seconds(least_work(program), program.unit) for p in range(len(program.parts))]
    number = {node: place for place, node in enumerate(order)}
    routes = _Routes(cluster)
    messages = [one for one in parcels if not one.is_bulk]
    links = {Link(number[need], number[node]) for node in needs for need in needs[node]}
    links |= set(_links([one for one in parcels if one.weight is None], number, routes))
    returns = set(_links([one for one in parcels if one.weight is not None], number, routes))
    return SyncPace(
        parts=tuple(node[0] for node in order),
        work_s=tuple(work[node] for node in order),
        least_s=tuple(least),
        network_s=tuple(_network_seconds(messages, part, cluster) for part in range(len(program.parts))),
        routes=tuple(routes.found),
        orders=tuple(
            tuple((number[p, action.kind, action.segment], action.offset) for action in row)
            for p, row in enumerate(schedule.actions)
        ),
        updates=tuple(number[node] for node in closing),
        links=tuple(sorted(links)),
        returns=tuple(sorted(returns)),
        cards=_cards(parcels, cluster),
    )


def _cards(parcels: Iterable[Parcel], cluster: Cluster) -> tuple[CardLoad, ...]:
    return tuple(
        CardLoad(f"{cluster.hosts[host].name}'s card, {WAYS[way]}", time)
        for (host, way), time in sorted(card_seconds(parcels, cluster).items())
    )


class _Routes:
    """The routes between hosts that are in use, each once."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._numbers: dict[Pair, int] = {}
        self.found: list[Route] = []

    def between(self, source: int, target: int) -> int:
        """Return the number of the route from one part to another."""
        pair = self._cluster.home[source], self._cluster.home[target]
        if pair not in self._numbers:
            self._numbers[pair] = len(self.found)
            here, there = (self._cluster.hosts[host] for host in pair)
            rate = min(here.out_rate, there.in_rate) if here is not there else here.inside_rate
            latency = self._cluster.lag(source, target, 0)
            self.found.append(Route(latency, 1 / rate, here is not there))
        return self._numbers[pair]


def _links(parcels: Iterable[Parcel], number: dict[Node, int], routes: _Routes) -> Iterator[Link]:
    """Yield what every action waits for of every other one.

    Parcels that go together share a card, and the last of them comes when all are through; within a host each goes by
    itself. Of those that go while their maker still works, or come while their taker does, the first departure and the
    last need with all bytes are a bound, and so are the last departure and the first need with their own.
    """
    sent: dict[tuple[Node, Node], list[Sent]] = defaultdict(list)
    for parcel in parcels:
        for taker, into in zip(parcel.takers, parcel.into or (0.0,) * len(parcel.takers), strict=True):
            sent[parcel.maker, taker].append(Sent(parcel.num_bytes, parcel.left, into))
    for (maker, taker), some in sent.items():
        if maker[0] == taker[0]:  # what a relay keeps for itself
            yield Link(number[maker], number[taker])
            continue
        ends, route = (number[maker], number[taker]), routes.between(maker[0], taker[0])
        last = min(some, key=lambda one: (one.left, one.into, -one.num_bytes))
        yield Link(*ends, route, last.num_bytes, last.left, last.into)
        if routes.found[route].is_network:
            num_bytes = sum(one.num_bytes for one in some)
            yield Link(*ends, route, num_bytes, max(one.left for one in some), max(one.into for one in some))


def _network_seconds(parcels: Iterable[Parcel], part: int, cluster: Cluster) -> float:
    """Return what a part's device does for the network, for a mini-batch."""
    home, host = cluster.home, cluster.hosts[cluster.home[part]]
    total = 0.0
    for parcel in parcels:
        source, target = parcel.maker[0], parcel.takers[0][0]
        if home[source] != home[target]:
            total += (parcel.num_bytes * host.send_s_per_byte + host.message_s) * (source == part)
            total += (parcel.num_bytes * host.receive_s_per_byte + host.message_s) * (target == part)
    return total
