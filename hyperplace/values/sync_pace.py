"""How long an iteration of the synchronous schedule takes on a cluster, and how that changes with network and devices.

From the end of one iteration to that of the next it takes at least the longest of

    work of a part / speed + what its device does for the network
    bytes through a card, each way / its rate
    the longest chain of work and messages from a part's first action of an iteration to its last, where each part does
    its actions in the order of the schedule, or on to the new weights that its first action waits for

A mini-batch of m micro-batches has m times the actions of one, each with a share 1/m of work and bytes; gradients of
copies and new weights go once. Queues at cards are left out, so a simulation takes as long or longer. The page of a
plan computes the same in the browser (report/page/sync_pace.js).
"""

from dataclasses import dataclass
from math import inf

from hyperplace.values.pace import Bound, CardLoad, Change, Link, Route, lag_of

CHAIN = "the longest chain"

Done = tuple[int, int]  # an action and its micro-batch


@dataclass(frozen=True)
class SyncPace:
    """The actions of a mini-batch as if it were one piece, then the parts' updates, and what joins them."""

    parts: tuple[int, ...]  # of every action
    work_s: tuple[float, ...]
    least_s: tuple[float, ...]  # of every part: what an action takes however small its share is
    network_s: tuple[float, ...]  # of every part's device, for a mini-batch
    routes: tuple[Route, ...]
    orders: tuple[tuple[tuple[int, int], ...], ...]  # of every part: actions, each with how many ticks it lies behind
    updates: tuple[int, ...]  # the actions that come once, after all micro-batches
    links: tuple[Link, ...]
    returns: tuple[Link, ...]  # new weights, to the forward passes of the next iteration
    cards: tuple[CardLoad, ...]


def sync_bound(pace: SyncPace, change: Change) -> Bound:
    """Return the least seconds of an iteration."""
    work, many = works(pace, change), change.micro_batches
    busy = list(pace.network_s)
    for action, part in enumerate(pace.parts):
        busy[part] += work[action] * (1 if action in pace.updates else many)
    candidates = [
        *((f"part {part}'s work", seconds) for part, seconds in enumerate(busy)),
        *((card.name, card.seconds / change.bandwidth) for card in pace.cards),
        (CHAIN, longest_chain(pace, change)),
    ]
    binds, seconds = max(candidates, key=lambda one: one[1])
    return Bound(seconds, binds, tuple(candidates))


def works(pace: SyncPace, change: Change) -> list[float]:
    """Return the seconds of every action on one micro-batch, and of the updates."""
    return [
        (seconds if action in pace.updates else max(seconds / change.micro_batches, pace.least_s[part])) / change.speed
        for action, (part, seconds) in enumerate(zip(pace.parts, pace.work_s, strict=True))
    ]


def longest_chain(pace: SyncPace, change: Change) -> float:
    """Return how long it takes at least until a part that has begun an iteration can begin the next."""
    last, work = change.micro_batches - 1, works(pace, change)
    coming: list[list[tuple[int, float]]] = [[] for _ in pace.parts]
    for link in pace.links:
        coming[link.taker].append((link.maker, _lag(pace, link, change, work)))
    todo = [todo_of(pace, part, change.micro_batches) for part in range(len(pace.orders))]
    longest = 0.0
    for part in (part for part, some in enumerate(todo) if some):
        ends = _ends(todo, coming, work, part)
        first, final = todo[part][0], todo[part][-1]
        back = [
            ends[link.maker, last] + _lag(pace, link, change, work) for link in pace.returns if link.taker == first[0]
        ]
        longest = max(longest, ends[final], *back)
    return longest


def _ends(
    todo: list[list[Done]], coming: list[list[tuple[int, float]]], work: list[float], first: int
) -> dict[Done, float]:
    """Return how long after one part has begun every action ends at least; of what does not wait for it, nothing.

    Parts take their next action as soon as all it waits for is known: whoever is first goes first.
    """
    ends: dict[Done, float] = {}
    free, place = [-inf] * len(todo), [0] * len(todo)
    free[first] = 0.0
    has_moved = True
    while has_moved:
        has_moved = False
        for part, some in enumerate(todo):
            while place[part] < len(some):
                action, piece = some[place[part]]
                # Gradients of copies are added up: an update waits for the last piece alone.
                waits = [(ends.get((maker, piece)), lag) for maker, lag in coming[action]]
                if any(end is None for end, _ in waits):
                    break
                free[part] = max([free[part], *(end + lag for end, lag in waits if end is not None)]) + work[action]
                ends[action, piece] = free[part]
                place[part] += 1
                has_moved = True
    return ends


def todo_of(pace: SyncPace, part: int, micro_batches: int) -> list[Done]:
    """Return a part's actions in order: its row again and again, for the micro-batches that there are."""
    row = pace.orders[part]
    depth = max((behind for order in pace.orders for _, behind in order), default=0)
    found = [
        (action, tick - behind)
        for tick in range(micro_batches + depth)
        for action, behind in row
        if 0 <= tick - behind < micro_batches
    ]
    return found + [(action, micro_batches - 1) for action in pace.updates if pace.parts[action] == part]


def _lag(pace: SyncPace, link: Link, change: Change, work: list[float]) -> float:
    """Return how long after its maker's end a link lets its taker begin; gradients are early if none are added up."""
    once = link.taker in pace.updates or link.maker in pace.updates
    share = 1.0 if once else 1 / change.micro_batches
    early = link.left * work[link.maker] if change.micro_batches == 1 else 0.0
    return lag_of(pace.routes, link, change, share) - early - link.into * work[link.taker]
