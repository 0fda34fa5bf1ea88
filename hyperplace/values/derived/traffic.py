"""How long actions and messages of a program take on a cluster, if nothing else is in their way."""

from collections import Counter
from collections.abc import Iterable, Mapping

from hyperplace.values.cluster import Cluster
from hyperplace.values.derived.actions import Node, Parcel
from hyperplace.values.prediction import IN, OUT
from hyperplace.values.program import Program
from hyperplace.values.relief import offloaded, spared_bytes
from hyperplace.values.schedule import BACKWARD, FORWARD

Card = tuple[int, str]  # a host's, one way
Wave = tuple[str, int, tuple[int, str | int]]  # a kind of action, its segment, and by which way: a card, or two parts


def seconds(
    program: Program,
    work: Mapping[Node, float],
    cluster: Cluster | None,
    *,
    share: float = 1.0,
    offloads: bool = True,
) -> dict[Node, float]:
    """Return the seconds of all actions; without a cluster their work as it is.

    `share`: of the rows of a mini-batch. `offloads`: with what passes take for moving what they save to the host and
    back, which a device does in line with its work.
    """
    if cluster is None:
        return dict(work)
    cluster.check_parts(len(program.parts))
    found = {node: cluster.devices[node[0]].seconds(amount, program.unit) for node, amount in work.items()}
    for p, s in offloaded(program) if offloads else ():
        if rate := cluster.host_rate(p):
            for kind in (FORWARD, BACKWARD):
                found[p, kind, s] += spared_bytes(program.parts[p], s, share) / rate
    return found


def lags_of(
    parcels: Iterable[Parcel], work: Mapping[Node, float], cluster: Cluster | None
) -> dict[tuple[Node, Node], float]:
    """Return how long after the end of an action another one has all that comes to it from there.

    What the same action of several parts sends is taken to leave at the same time, and waits for each other on the
    cards that it shares: fifteen devices whose activations go to one are fifteen times as long about it as one.
    """
    lags: dict[tuple[Node, Node], float] = {}
    gone: dict[Wave, float] = {}  # when what has been sent so far is through a card, or through to a part of the host
    for parcel in sorted(parcels, key=lambda one: -one.left) if cluster else ():
        assert cluster is not None
        source, target = parcel.maker[0], parcel.takers[0][0]
        if source == target:
            continue
        end = _through(parcel, -parcel.left * work.get(parcel.maker, 0.0), gone, cluster)
        for taker in parcel.takers:
            known = lags.get((parcel.maker, taker), 0.0)
            lags[parcel.maker, taker] = max(known, end + cluster.lag(source, target, 0))
    return lags


def _through(parcel: Parcel, ready: float, gone: dict[Wave, float], cluster: Cluster) -> float:
    """Return when a parcel is through, but for the latency, once those before it are."""
    (source, kind, segment), target = parcel.maker, parcel.takers[0][0]
    here, there = cluster.home[source], cluster.home[target]
    if here == there:
        wave = kind, segment, (source, target)
        begin = max(ready, gone.get(wave, ready))
        gone[wave] = begin + cluster.lag(source, target, parcel.num_bytes) - cluster.lag(source, target, 0)
        return gone[wave]
    leaving, entering = (kind, segment, (here, OUT)), (kind, segment, (there, IN))
    begin = max(ready, gone.get(leaving, ready))
    gone[leaving] = begin + parcel.num_bytes / cluster.hosts[here].out_rate
    whole = max(begin, gone.get(entering, begin)) + parcel.num_bytes / cluster.hosts[there].in_rate
    gone[entering] = max(whole, gone[leaving])
    return gone[entering]


def card_seconds(parcels: Iterable[Parcel], cluster: Cluster | None) -> dict[Card, float]:
    """Return how long every card is busy each way for a mini-batch."""
    loads: Counter[Card] = Counter()
    for parcel in parcels:
        if cluster is not None:
            source, target = cluster.home[parcel.maker[0]], cluster.home[parcel.takers[0][0]]
            if source != target:
                loads[source, OUT] += parcel.num_bytes
                loads[target, IN] += parcel.num_bytes
    return {
        (host, way): load / (cluster.hosts[host].out_rate if way == OUT else cluster.hosts[host].in_rate)
        for (host, way), load in loads.items()
        if cluster is not None
    }
