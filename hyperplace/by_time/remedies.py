"""What would help where no plan fits into the memory of a cluster: the smallest change that does, and was tried."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from hyperplace.by_time.timing import FlowWish, forecast
from hyperplace.values.bench import ASYNC, SYNC
from hyperplace.values.cluster import Cluster
from hyperplace.values.graph import Graph
from hyperplace.values.plan import Plan
from hyperplace.values.profile import Profile
from hyperplace.values.relief import AUTO, NONE, OFFLOAD, RECOMPUTE

MORE_PARTS = (1.25, 1.5, 2, 3, 4, 8)  # times as many


@dataclass(frozen=True)
class _Change:
    """Another way to run, on another cluster, by one of some plans."""

    words: str
    flow: FlowWish
    cluster: Cluster
    plans: Iterable[Plan]


def smallest_change(
    graph: Graph,
    costs: Profile,
    cluster: Cluster,
    flow: FlowWish,
    plans: Sequence[Plan],
    plans_on: Callable[[int], Iterable[Plan]],
) -> str:
    """Say which change would let one of the plans, or of those on more parts, fit: the first that does."""
    for change in _changes(cluster, flow, plans, plans_on):
        for plan in change.plans:
            if not forecast(graph, costs, plan, change.cluster, change.flow).lacks:
                return f"{change.words} would do"
    return f"neither fewer in flight, sync nor {MORE_PARTS[-1]} times as many such devices would do"


def _changes(
    cluster: Cluster, flow: FlowWish, plans: Sequence[Plan], plans_on: Callable[[int], Iterable[Plan]]
) -> Iterator[_Change]:
    for fewer in range((flow.in_flight or 1) - 1, 0, -1):
        yield _Change(f"{fewer} in flight instead of {flow.in_flight}", replace(flow, in_flight=fewer), cluster, plans)
    free = replace(flow, in_flight=None)
    if flow.recompute == NONE:
        yield _Change("recomputing activations (--recompute auto)", replace(free, recompute=AUTO), cluster, plans)
    if flow.offload == NONE:
        yield _Change("offloading activations (--offload auto)", replace(free, offload=AUTO), cluster, plans)
    free = replace(free, recompute=AUTO, offload=AUTO)
    freed = " and ".join(f"--{way} auto" for way in (RECOMPUTE, OFFLOAD) if getattr(flow, way) != AUTO)
    along = f", with {freed}," if freed else ""
    if flow.schedule == ASYNC:
        yield _Change(f"sync instead of async{along}", replace(free, schedule=SYNC), cluster, plans)
    k = plans[0].settings.k
    for number in dict.fromkeys(max(k + 1, round(times * k)) for times in MORE_PARTS):
        words = f"{number} parts instead of {k}, on devices like those of {cluster.hosts[-1].name}{along or ','}"
        yield _Change(words, free, _grown(cluster, number), plans_on(number))


def _grown(cluster: Cluster, num_devices: int) -> Cluster:
    """Return the cluster with more hosts like its last one, for so many devices at least."""
    last, hosts = cluster.hosts[-1], list(cluster.hosts)
    while sum(len(host.devices) for host in hosts) < num_devices:
        hosts.append(replace(last, name=f"{last.name} again {len(hosts)}"))
    return Cluster(tuple(hosts))
