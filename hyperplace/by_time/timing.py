"""Time on a cluster: what a plan is predicted to take there, run as is best.

Plan + Cluster -> lower -> schedule -> simulate -> Forecast
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from hyperplace.by_time.fitting import Prices, fitted
from hyperplace.compiling import micro_batches_for
from hyperplace.errors import UsageError
from hyperplace.steps.lower import lower
from hyperplace.steps.schedule import schedule
from hyperplace.steps.simulate import memory, predict
from hyperplace.values.bench import ASYNC, SYNC
from hyperplace.values.cluster import Cluster
from hyperplace.values.derived.actions import durations, needs_of, parcels_of
from hyperplace.values.derived.pacing import pace_of, sync_pace_of
from hyperplace.values.derived.traffic import card_seconds, seconds
from hyperplace.values.forecast import Forecast, Outlook
from hyperplace.values.graph import Graph
from hyperplace.values.memory import PartMemory
from hyperplace.values.plan import Plan
from hyperplace.values.profile import Profile, cost_of_rows
from hyperplace.values.program import Program
from hyperplace.values.relief import (
    ALL,
    AUTO,
    NONE,
    OFFLOAD,
    RECOMPUTE,
    offloaded,
    recomputed,
    relieved,
    spared_bytes,
)
from hyperplace.values.schedule import Schedule
from hyperplace.values.sizes import size

ENOUGH = 0.98  # of the best: fewer mini-batches in flight are worth as much
ASSUMED_FLOPS_PER_S = 1e11  # of a device of which nothing is said: some cores of a CPU
LEAST_ROWS = 8  # of a micro-batch: with four, VGG16 takes a quarter longer than its share of work

_Run = tuple[Schedule, int, int]  # mini-batches in flight, micro-batches


@dataclass(frozen=True)
class FlowWish:
    """How plans are to run: how many mini-batches under way at most, what the optimizer keeps, what is recomputed.

    `recompute`: auto is as little as the memory of the devices asks for; none, all. `offload`: the same, none or auto,
    of what devices with memory of their own may keep in that of their host.
    """

    schedule: str = ASYNC
    in_flight: int | None = None  # the best of several by default
    optimizer: str = "momentum"
    recompute: str = AUTO
    offload: str = AUTO

    def __post_init__(self) -> None:
        if self.schedule not in (ASYNC, SYNC):
            raise UsageError(f"schedule {self.schedule!r} is unknown; choose one of {ASYNC}, {SYNC}")
        if self.in_flight is not None and self.in_flight < 1:
            raise UsageError(f"in_flight {self.in_flight} is less than 1")
        if self.recompute not in (AUTO, NONE, ALL):
            raise UsageError(f"recompute {self.recompute!r} is unknown; choose one of {AUTO}, {NONE}, {ALL}")
        if self.offload not in (AUTO, NONE):
            raise UsageError(f"offload {self.offload!r} is unknown; choose one of {AUTO}, {NONE}")


def forecast(
    graph: Graph,
    costs: Profile,
    plan: Plan,
    cluster: Cluster,
    flow: FlowWish | None = None,
    name: str = "plan",
    *,
    enough_s: float | None = None,
) -> Forecast:
    """Return how a plan is best run on a cluster: with the fewest in flight that are about as fast as any number.

    Where that takes more memory than there is, it is the fastest of what fits: fewer in flight, or some segments
    recomputed or offloaded. A plan that cannot be as fast as `enough_s`, going by its busiest device or card, is run
    one way only.
    """
    flow = flow or FlowWish()
    cluster.check_parts(plan.settings.k)
    program = lower(graph, plan, costs)
    bound_s, found = _least_seconds(program, cluster), []
    for run in _runs(program, cluster, flow, _depths(graph, plan, cluster, flow)):
        found.append(_tried(name, plan, program, cluster, flow, run))
        is_slow = enough_s is not None and bound_s > enough_s
        if not found[-1].lacks and (is_slow or found[-1].seconds * ENOUGH <= bound_s):
            break  # more in flight cannot be faster, or not as fast as need be
    least = min(one.lacking_bytes for one in found)
    fitting = [one for one in found if one.lacking_bytes == least]
    best = min(one.seconds for one in fitting)
    return held_back(next(one for one in fitting if one.seconds * ENOUGH <= best), found)


def _least_seconds(program: Program, cluster: Cluster) -> float:
    """Return what a mini-batch takes at least however many are in flight: the busiest device's work, or a card's."""
    needs = needs_of(program)
    busy = [0.0] * len(program.parts)
    for node, time in seconds(program, durations(program, needs), cluster).items():
        busy[node[0]] += time
    return max(*busy, *card_seconds(parcels_of(program), cluster).values(), 0.0)


def held_back(chosen: Forecast, others: Iterable[Forecast]) -> Forecast:
    """Return a forecast that names the part for want of whose memory something faster was not chosen."""
    faster = [one for one in others if one.lacking_part is not None and one.unhindered_s < chosen.seconds * ENOUGH]
    if chosen.lacks or chosen.short_part is not None or not faster:
        return chosen
    return replace(chosen, short_part=min(faster, key=lambda one: one.unhindered_s).lacking_part)


def outlook(
    graph: Graph,
    plan: Plan,
    cluster: Cluster,
    in_flight: int = 4,
    *,
    schedule: str = ASYNC,
    micro_batches: int | None = None,
) -> Outlook:
    """Return what a plan takes on a cluster with so many in flight, going by the costs it was made with.

    `micro_batches`: of the sync schedule; k, or 1 where a batch norm would not be the same.
    """
    flow = FlowWish(schedule, in_flight)
    cluster.check_parts(plan.settings.k)
    program = lower(graph, plan)
    known, assumed = _with_flops(cluster) if program.unit == "flops" else (cluster, "")
    pieces = (micro_batches or micro_batches_for(graph, plan)) if schedule == SYNC else 1
    (run,) = _runs(program, known, flow, [(in_flight, pieces)])
    found = _tried("plan", plan, program, known, flow, run)
    pace = sync_pace_of(program, run[0], known) if schedule == SYNC else pace_of(program, known)
    return Outlook(found, known, pace, assumed)


def _with_flops(cluster: Cluster) -> tuple[Cluster, str]:
    """Return the cluster with FLOPs a second for every device, and what was assumed for that."""
    if all(device.flops_per_s for device in cluster.devices):
        return cluster, ""
    hosts = tuple(
        replace(host, devices=tuple(replace(d, flops_per_s=d.flops_per_s or ASSUMED_FLOPS_PER_S) for d in host.devices))
        for host in cluster.hosts
    )
    return Cluster(hosts), (
        f"the plan counts FLOPs, and the cluster does not say how many a device does: {ASSUMED_FLOPS_PER_S / 1e9:g} "
        "GFLOP a second are assumed"
    )


def _depths(graph: Graph, plan: Plan, cluster: Cluster, flow: FlowWish) -> list[tuple[int, int]]:
    """Return the depths in flight to try, and the micro-batches, fewer first."""
    k = plan.settings.k
    if flow.schedule == ASYNC:
        depths = [flow.in_flight] if flow.in_flight else sorted({1, 2, 3, 4, k, k + 1, 2 * k})
        return [(depth, 1) for depth in depths]
    is_tight = any(device.memory_bytes is not None for device in cluster.devices)
    least, most = micro_batches_for(graph, plan), max(1, plan.settings.batch // LEAST_ROWS)
    pieces = sorted({1, *(min(number, most) for number in (least, 2 * least) if least > 1)})
    depth = flow.in_flight or max(4, k)
    fewer = (1, 2) if is_tight and not flow.in_flight else ()
    return [(one, number) for number in pieces for one in (*(few for few in fewer if few < number), depth)]


def _runs(program: Program, cluster: Cluster, flow: FlowWish, depths: Iterable[tuple[int, int]]) -> Iterator[_Run]:
    """Yield the schedule of every depth, unless a smaller one has the same: then more in flight changes nothing."""
    known: list[tuple[Schedule, int]] = []
    for in_flight, pieces in depths:
        order = schedule(program, in_flight, is_sync=flow.schedule == SYNC, cluster=cluster)
        if (order, pieces) not in known:
            known.append((order, pieces))
            yield order, in_flight, pieces


def _tried(name: str, plan: Plan, program: Program, cluster: Cluster, flow: FlowWish, run: _Run) -> Forecast:
    order, in_flight, pieces = run
    micro_batches = pieces if flow.schedule == SYNC else None

    def needed(program: Program) -> tuple[PartMemory, ...]:
        return memory(
            program,
            order,
            optimizer=flow.optimizer,
            in_flight=in_flight,
            micro_batches=micro_batches,
            cluster=cluster,
        )

    asked = program
    if flow.recompute == ALL:
        program = relieved(program, recompute=ALL)
    else:
        limits = [device.memory_bytes for device in cluster.devices]
        prices = _prices(program, cluster, flow, 1 / pieces)
        program = fitted(program, order, limits, lambda one: [part.total for part in needed(one)], prices)
    parts = needed(program)
    lacking = _lacking(cluster, [part.total for part in parts])
    again, away = recomputed(program), offloaded(program)
    prediction = predict(program, order, cluster, micro_batches=micro_batches)
    is_free = not (again or away) or flow.recompute == ALL
    free = prediction if is_free else predict(asked, order, cluster, micro_batches=micro_batches)
    return Forecast(
        name,
        plan,
        flow.schedule,
        in_flight,
        pieces,
        prediction,
        parts,
        alone_seconds(program, cluster),
        again,
        away,
        ", ".join(_lack_text(cluster, part, lack) for part, lack in lacking.items()),
        sum(lacking.values()),
        lacking_part=max(lacking, key=lacking.__getitem__) if lacking else None,
        unhindered_s=free.seconds,
        short_part=min(again + away)[0] if free.seconds < prediction.seconds * ENOUGH else None,
    )


def _prices(program: Program, cluster: Cluster, flow: FlowWish, share: float) -> Prices:
    """Return what each way to need less memory takes, in seconds: to run forward again, or to move there and back."""

    def found(p: int, s: int) -> dict[str, float]:
        part, ways = program.parts[p], {}
        if flow.recompute == AUTO:
            work = part.segments[s].forward * cost_of_rows(part.segments[s].half_rows, share)
            ways[RECOMPUTE] = cluster.devices[p].seconds(work, program.unit)
        if flow.offload == AUTO and (rate := cluster.host_rate(p)):
            ways[OFFLOAD] = 2 * spared_bytes(part, s, share) / rate
        return ways

    return found


def alone_seconds(program: Program, cluster: Cluster) -> float:
    """Return what a mini-batch takes on the fastest device alone."""
    return min(device.seconds(program.total_work, program.unit) for device in cluster.devices)


def _lacking(cluster: Cluster, needed: list[int]) -> dict[int, int]:
    """Return the parts whose devices have too little memory, and how much they lack."""
    limits = [device.memory_bytes for device in cluster.devices]
    pairs = enumerate(zip(needed, limits, strict=False))
    return {part: size - limit for part, (size, limit) in pairs if limit is not None and size > limit}


def _lack_text(cluster: Cluster, part: int, num_bytes: int) -> str:
    return f"part {part} on {cluster.hosts[cluster.home[part]].name} lacks {size(num_bytes)} of memory"


def probe(seconds: float = 5.0) -> Cluster | None:
    """Return what the processes that torchrun has started are on, or this one; only the first of them gets it."""
    from hyperplace.runtime.hosts.joining import joined
    from hyperplace.runtime.hosts.probe import probe as step

    with joined() as number:
        found = step(seconds)
    return found if number == 0 else None
