"""How fast mini-batches can follow each other on a cluster, and how that changes with its network and devices.

In the steady state of the asynchronous schedule the period is at least the largest of

    work of a part / speed + what its device does for the network
    bytes through a card, each way / its rate
    the longest loop of dependent actions and messages / mini-batches in flight

A loop begins and ends on one part, which does all of a tick before it begins the next, and nothing lies more ticks
behind than there are mini-batches in flight; or it begins with a forward pass and ends with the weights that come back
to it. Queues are left out: a simulation takes as long, or longer. The page of a plan computes the same in the browser
(report/page/pace.js), so here are plain numbers only.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from hyperplace.errors import UsageError
from hyperplace.values.arrays import Floats

WAITING = "parts wait for each other"


@dataclass(frozen=True)
class Route:
    """From host to host, or within one: then a change of the network does not concern it."""

    latency_s: float
    s_per_byte: float
    is_network: bool


class Link(NamedTuple):
    """An action that another one waits for, by their numbers, and what is sent between them: on no route, nothing.

    `left`: the share of the maker's work that is still to be done when it goes; `into`: the share of the taker's that
    it can do before it comes.
    """

    maker: int
    taker: int
    route: int = -1
    num_bytes: int = 0
    left: float = 0.0
    into: float = 0.0


@dataclass(frozen=True)
class CardLoad:
    """How long a card is busy one way for a mini-batch."""

    name: str
    seconds: float


@dataclass(frozen=True)
class Pace:
    """The actions of a mini-batch, in an order in which what each waits for comes first, and what joins them."""

    parts: tuple[int, ...]  # of every action
    work_s: tuple[float, ...]
    network_s: tuple[float, ...]  # of every part's device, for a mini-batch
    routes: tuple[Route, ...]
    links: tuple[Link, ...]
    returns: tuple[Link, ...]  # new weights, to the forward passes of later mini-batches
    cards: tuple[CardLoad, ...]

    @cached_property
    def entries(self) -> tuple[int, ...]:
        """The actions that new weights come to."""
        return tuple(sorted({link.taker for link in self.returns}))


@dataclass(frozen=True)
class Change:
    """Another network and other devices: bandwidth and speed as factors, latency as what is added."""

    bandwidth: float = 1.0
    latency_s: float = 0.0
    speed: float = 1.0
    in_flight: int = 4
    micro_batches: int = 1  # of the synchronous schedule

    def __post_init__(self) -> None:
        counts = min(self.in_flight, self.micro_batches)
        if not (self.bandwidth > 0 and self.speed > 0 and self.latency_s >= 0 and counts >= 1):
            raise UsageError(f"{self} has a factor of 0 or less, a latency below 0, or nothing in flight")


@dataclass(frozen=True)
class Bound:
    """The least that a mini-batch takes, what binds it, and what each of the others would let it take."""

    seconds: float
    binds: str
    candidates: tuple[tuple[str, float], ...]


def bound(pace: Pace, change: Change) -> Bound:
    """Return the least seconds from mini-batch to mini-batch."""
    busy = [0.0] * len(pace.network_s)
    for part, work in zip(pace.parts, pace.work_s, strict=True):
        busy[part] += work / change.speed
    candidates = [
        *((f"part {part}'s work", busy[part] + extra) for part, extra in enumerate(pace.network_s)),
        *((card.name, card.seconds / change.bandwidth) for card in pace.cards),
        (WAITING, longest_loop(pace, change) / change.in_flight),
    ]
    binds, seconds = max(candidates, key=lambda one: one[1])
    return Bound(seconds, binds, tuple(candidates))


def longest_loop(pace: Pace, change: Change) -> float:
    """Return the seconds of the longest loop; each column of `ends` is one that begins elsewhere."""
    num_parts = len(pace.network_s)
    work = np.array(pace.work_s) / change.speed
    ends: Floats = np.full((len(work), num_parts + len(pace.entries)), -np.inf)
    coming: list[list[tuple[int, float]]] = [[] for _ in work]
    for link, lag in zip(pace.links, lags(pace, pace.links, change), strict=True):
        coming[link.taker].append((link.maker, lag))
    column_of = {entry: num_parts + number for number, entry in enumerate(pace.entries)}
    for action, part in enumerate(pace.parts):
        begin = ends[action]
        for maker, lag in coming[action]:
            np.maximum(begin, ends[maker] + lag, out=begin)
        begin[part] = max(begin[part], 0.0)
        if action in column_of:
            begin[column_of[action]] = 0.0
        begin += work[action]
    found = [0.0, *(float(ends[action, part]) for action, part in enumerate(pace.parts))]
    for link, lag in zip(pace.returns, lags(pace, pace.returns, change), strict=True):
        found.append(float(ends[link.maker, column_of[link.taker]]) + lag)
    return max(found)


def lags(pace: Pace, links: Sequence[Link], change: Change) -> list[float]:
    """Return how long after its maker's end each link lets its taker begin."""
    work = pace.work_s
    early = ((link.left * work[link.maker] + link.into * work[link.taker]) / change.speed for link in links)
    return [lag_of(pace.routes, link, change) - ahead for link, ahead in zip(links, early, strict=True)]


def lag_of(routes: Sequence[Route], link: Link, change: Change, share: float = 1.0) -> float:
    """Return how long what a link sends, or a share of it, is under way."""
    if link.route < 0:
        return 0.0
    route, num_bytes = routes[link.route], link.num_bytes * share
    if route.is_network:
        return route.latency_s + change.latency_s + num_bytes * route.s_per_byte / change.bandwidth
    return route.latency_s + num_bytes * route.s_per_byte
