"""How long actions and messages of a program take on a cluster, if nothing else is in their way."""

from collections import Counter
from collections.abc import Iterable, Mapping

from hyperplace.values.cluster import Cluster
from hyperplace.values.derived.actions import Node, Parcel
from hyperplace.values.prediction import IN, OUT
from hyperplace.values.program import Program

Card = tuple[int, str]  # a host's, one way


def seconds(program: Program, work: Mapping[Node, float], cluster: Cluster | None) -> dict[Node, float]:
    """Return the seconds of all actions; without a cluster their work as it is."""
    if cluster is None:
        return dict(work)
    cluster.check_parts(len(program.parts))
    return {node: cluster.devices[node[0]].seconds(amount, program.unit) for node, amount in work.items()}


def lags_of(
    parcels: Iterable[Parcel], work: Mapping[Node, float], cluster: Cluster | None
) -> dict[tuple[Node, Node], float]:
    """Return how long after the end of an action another one has all that comes to it from there."""
    lags: dict[tuple[Node, Node], float] = {}
    gone: dict[tuple[Node, int], float] = {}  # when what an action has sent so far to a part is through
    for parcel in sorted(parcels, key=lambda one: -one.left) if cluster else ():
        assert cluster is not None
        source, target = parcel.maker[0], parcel.takers[0][0]
        latency = cluster.lag(source, target, 0)
        begin = max(-parcel.left * work.get(parcel.maker, 0.0), gone.get((parcel.maker, target), float("-inf")))
        gone[parcel.maker, target] = begin + cluster.lag(source, target, parcel.num_bytes) - latency
        for taker in parcel.takers:
            lags[parcel.maker, taker] = max(gone[parcel.maker, target] + latency, 0.0)
    return lags


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
