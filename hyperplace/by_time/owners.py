"""Who owns weights that several parts have copies of, for least time: Plan + Cluster -> Plans.

Equal shares are best where cards and devices are equal. A part behind a slow card had better own little, for it then
sends and receives one copy instead of several; and so had one whose device is slow or busy, for owners update.
"""

from collections.abc import Iterator, Sequence
from math import isfinite

from hyperplace.steps.place import reowned
from hyperplace.values.cluster import Cluster
from hyperplace.values.plan import Plan

MOST_ALONE = 8  # parts that are each tried as the only owner
NO_LIMIT = 1e15  # bytes a second


def other_owners(plan: Plan, cluster: Cluster, busy: Sequence[float]) -> Iterator[tuple[str, Plan]]:
    """Yield the plan with other owners, and by what they were chosen; `busy` is the share of time that a part works."""
    if any(replica.parameter_bytes for replica in plan.replicas):
        for name, weights in dict(_weights(cluster, busy)).items():
            yield name, reowned(plan, weights)


def _weights(cluster: Cluster, busy: Sequence[float]) -> Iterator[tuple[str, tuple[float, ...]]]:
    """Yield how much every part is to own, relative to the others."""
    numbers = range(len(busy))
    cards = [_card(cluster, part, len(busy)) for part in numbers]
    idle = [max(1 - share, 0.0) for share in busy]
    yield "by cards", tuple(cards)
    yield "by the best cards", tuple(float(card == max(cards)) for card in cards)
    yield "but the slowest card's", tuple(float(card > min(cards)) for card in cards)
    yield "by speed", tuple(cluster.devices[part].speed for part in numbers)
    yield "by idle time", tuple(share * cluster.devices[part].speed for part, share in enumerate(idle))
    by_worth = sorted(numbers, key=lambda part: (-cards[part], busy[part]))
    for server in by_worth[:MOST_ALONE]:
        yield f"part {server} first", tuple(float(part == server) for part in numbers)


def _card(cluster: Cluster, part: int, num_parts: int) -> float:
    """Return what a part's share of its host's card carries, the slower way."""
    host = cluster.hosts[cluster.home[part]]
    rate = min(host.out_rate, host.in_rate)
    sharers = sum(cluster.home[other] == cluster.home[part] for other in range(num_parts))
    return (rate if isfinite(rate) else NO_LIMIT) / sharers
