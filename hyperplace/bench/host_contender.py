"""Who takes part in a bench on hosts: the plain loop on one of them, every plan on all, and what torch offers."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from statistics import mean

from hyperplace import api
from hyperplace.bench.contender import (
    PLANS,
    PROFILE_ROUNDS,
    BenchSettings,
    Planned,
    plain_row,
    plans,
    predicted_us,
    together_row,
    unsplit_us,
)
from hyperplace.bench.cores import Seat
from hyperplace.bench.jobs import DDP, GPIPE, ONE_F_ONE_B, PLAIN, PLAN, Entry
from hyperplace.bench.measure import OnProgress, on_cores
from hyperplace.bench.netns import LOOPBACK, Card, Host
from hyperplace.bench.outside import stage_cuts
from hyperplace.errors import UsageError
from hyperplace.files.cluster import cluster_text
from hyperplace.models import LoadedModel
from hyperplace.values.bench import ASYNC, SYNC, BenchRow, Paces
from hyperplace.values.cluster import Cluster, Device
from hyperplace.values.forecast import Forecast
from hyperplace.values.graph import Graph
from hyperplace.values.methods import AS_IF_EQUAL, BY_TIME, SERVERS, Kind
from hyperplace.values.plan import AUTO, Plan
from hyperplace.values.profile import Profile
from hyperplace.values.surviving import survive_cost
from hyperplace.values.timeline import Timeline

MOST_HOSTS = 64
# The first mini-batch finds out shapes and makes buffers. In async those that fill the pipe take as long as it is, the
# first time seconds: only one after them tells how many fit into a turn.
SYNC_WARM_UP, PACED = 2, 2
PIPELINES = (("torch GPipe", GPIPE), ("torch 1F1B", ONE_F_ONE_B))
MICRO_BATCHES = (2, 4, 8)
AUTO_KIND: Kind = ("auto", AUTO, "auto")
RATES = ("out_rate", "in_rate")
APART = 1.5  # of rates and speeds: what is as far apart is not alike


@dataclass(frozen=True)
class HostSettings:
    """The hosts, and what is measured on them: k is how many they are; every batch size has its own plans."""

    spec: str  # of the model, which every host makes for itself
    shapes: tuple[tuple[int, ...], ...] | None
    bench: BenchSettings
    cards: tuple[Card, ...] = (Card(),)  # one for all hosts, or one each
    shares: tuple[float, ...] = ()  # of a core, one for each host; as much as there is by default
    batches: tuple[int, ...] = ()  # the bench's own by default
    turn_limit_s: float = 30.0  # a slow method is timed for fewer mini-batches
    silence_s: float = 300.0  # who says nothing for so long hangs

    def __post_init__(self) -> None:
        check_hosts(self.bench.k)
        if len(self.cards) not in (1, self.bench.k):
            raise UsageError(f"--rate has {len(self.cards)} rates for {self.bench.k} hosts; give one, or one for each")
        if self.shares and (len(self.shares) != self.bench.k or not all(0 < share <= 1 for share in self.shares)):
            raise UsageError(
                f"--shares {','.join(map('{:g}'.format, self.shares))} are not {self.bench.k} shares of a core; give "
                "one for each host, above 0 and up to 1"
            )
        if not 0 < self.turn_limit_s < math.inf:
            raise UsageError(f"--turn-limit {self.turn_limit_s:g} is no time for a turn; give seconds above 0")
        for batch in self.batches:
            replace(self.bench, batch=batch)  # its own checks

    @property
    def sizes(self) -> tuple[BenchSettings, ...]:
        """The settings of every batch size."""
        return tuple(replace(self.bench, batch=batch) for batch in dict.fromkeys(self.batches or (self.bench.batch,)))


def check_hosts(number: int) -> None:
    """Refuse what are no several hosts."""
    if not 2 <= number <= MOST_HOSTS:
        raise UsageError(f"--hosts {number} is outside 2..{MOST_HOSTS}; for one host leave --hosts out")


@dataclass
class HostContender:
    """A row, how it is opened, and what its turns have given so far."""

    row: BenchRow
    entry: Entry
    speeds: list[float] = field(default_factory=list)
    idle: list[float] = field(default_factory=list)
    wire_bytes: list[float] = field(default_factory=list)
    each_s: list[tuple[float, ...]] = field(default_factory=list)  # of a mini-batch, on every host
    timeline: Timeline | None = None
    predicted_us: Callable[[Paces], float | None] = lambda paces: None  # of a mini-batch, at the paces of a run

    @property
    def name(self) -> str:
        return f"{self.row.method} {self.row.schedule}, batch {self.row.batch}"

    @property
    def warm_up(self) -> int:
        """Mini-batches that fill the pipe."""
        return self.entry.in_flight + PACED if self.row.schedule == ASYNC else SYNC_WARM_UP

    def finished(self) -> BenchRow:
        """Return the row with its figures."""
        if self.row.note:
            return self.row
        row = replace(self.row, images_per_s=tuple(self.speeds), idle=mean(self.idle))
        return replace(row, wire_bytes=mean(self.wire_bytes)) if self.wire_bytes else row


@dataclass(frozen=True)
class Place:
    """The hosts with their cores, and what the table says of them."""

    hosts: tuple[Host, ...]
    seats: tuple[Seat, ...]
    cards: tuple[Card, ...]
    network: str
    cluster: Cluster | None = None  # as it was probed

    @property
    def counts_bytes(self) -> bool:
        return self.hosts[0].interface != LOOPBACK  # which carries everybody's

    @property
    def speeds(self) -> list[float]:
        """How fast the hosts are beside a whole core: as they were probed, or by their shares."""
        return [device.speed for device in self.cluster.devices] if self.cluster else [one.share for one in self.seats]

    @property
    def bits_per_s(self) -> float | None:
        """The slowest card's rate as it looks beside layers that were measured on a whole core."""
        rates = [card.bits_per_s for card in self.cards if card.bits_per_s]
        return min(rates) / self.seats[0].share if rates else None


def seated(cluster: Cluster, seats: Sequence[Seat]) -> Cluster:
    """Return the hosts as they were probed, each as fast as it is beside a whole core, on which layers are measured.

    A host with 0.4 of a core did 0.33 to 0.40 of the work, from run to run. Hosts with equal shares are alike, whatever
    a short probe says.
    """
    first, probed = seats[0].share, [host.devices[0] for host in cluster.hosts]
    is_even = len({seat.share for seat in seats}) == 1
    speeds = [first if is_even else first * device.speed / probed[0].speed for device in probed]
    devices = [Device(speed=s, copy_s_per_byte=one.copy_s_per_byte) for s, one in zip(speeds, probed, strict=True)]
    return Cluster(tuple(replace(host, devices=(one,)) for host, one in zip(cluster.hosts, devices, strict=True)))


def host_contenders(
    loaded: LoadedModel, settings: HostSettings, place: Place, folder: Path, on_progress: OnProgress
) -> list[HostContender]:
    """Return all methods for all batch sizes, in the order of the table."""
    found: list[HostContender] = []
    with on_cores(settings.bench.k):
        graph = api.capture(loaded.module, loaded.sample)
        for sized in settings.sizes:
            on_progress(f"measuring layers, batch {sized.batch}")
            costs = api.profile(graph, costs=sized.costs, batch=sized.batch, threads=1, rounds=PROFILE_ROUNDS)
            plain = plain_rows(sized, unsplit_us(graph, costs), place.speeds)
            found += [HostContender(row, Entry(PLAIN, sized.batch)) for row in plain]
            for planned, is_auto in _kinds(
                list(plans(graph, costs, sized, (*PLANS, *SERVERS, AUTO_KIND), on_progress))
            ):
                found += _ours(planned, sized, place, folder, is_auto=is_auto)
            for name, cluster in _clusters(place.cluster):
                if sized.takes(name):
                    on_progress(f"planning {name}")
                    found += _by_time(graph, costs, sized, place, folder, name=name, cluster=cluster)
            cuts = stage_cuts(loaded.module, loaded.sample[0], graph, costs, k=sized.k, bits_per_s=place.bits_per_s)
            outside = (_data_parallel(sized), *_pipelines(sized, cuts))
            found += [one for one in outside if sized.takes(one.row.method)]
    return found


def plain_rows(settings: BenchSettings, layers_us: float | None, speeds: Sequence[float]) -> tuple[BenchRow, BenchRow]:
    """Return the rows of the plain loop: on the first host, and on all at once, which ends with the slowest."""
    first_us, slowest_us = (layers_us and layers_us / speed for speed in (speeds[0], min(speeds)))
    return plain_row(1, settings, first_us), together_row(settings, slowest_us)


def _kinds(made: list[Planned]) -> Iterator[tuple[Planned, bool]]:
    """Yield the plans and whether grain auto returns them; the last is auto's own, if no other is the same."""
    if not made or made[-1].name != AUTO_KIND[0]:
        yield from ((planned, False) for planned in made)
        return
    *others, auto = made
    same = next((planned for planned in others if _run_alike(planned.plan, auto.plan)), None)
    for planned in others:
        yield planned, planned is same
    if same is None:
        yield auto, auto.plan is not None


def _run_alike(one: Plan | None, other: Plan | None) -> bool:
    """Tell whether two plans place everything alike, whoever found them and whatever bound was proven."""
    if one is None or other is None:
        return False
    return (one.layers, one.replicas) == (other.layers, other.replicas)


def _ours(
    planned: Planned, sized: BenchSettings, place: Place, folder: Path, *, is_auto: bool
) -> Iterator[HostContender]:
    folder.mkdir(exist_ok=True)
    path = folder / f"{planned.name.replace(' ', '-')}-{sized.batch}.json"
    if planned.plan:
        api.save_plan(planned.plan, path)
    for schedule in (SYNC, ASYNC):
        how = schedule, sized, place.cluster
        row, flow = planned.row(*how), planned.flow(*how)
        entry = Entry(PLAN, sized.batch, schedule, flow.in_flight, flow.micro_batches, str(path))
        entry = replace(entry, cluster=cluster_text(place.cluster) if place.cluster else "")
        found = HostContender(replace(row, is_auto=is_auto), entry)
        if planned.program:
            found.predicted_us = partial(predicted_us, planned.program.program, flow)
        yield found


def _clusters(cluster: Cluster | None) -> Iterator[tuple[str, Cluster]]:
    """Yield the clusters that plans by time are made for: the hosts as they are, and as if unequal ones were equal."""
    if cluster is None:
        return
    yield BY_TIME, cluster
    if is_unequal(cluster):
        yield AS_IF_EQUAL, evened(cluster)


def is_unequal(cluster: Cluster) -> bool:
    """Say whether hosts differ by more than two measurements of the same do."""
    kinds = ([h.devices[0].speed for h in cluster.hosts], *([getattr(h, way) for h in cluster.hosts] for way in RATES))
    return any(max(some) > APART * min(some) for some in kinds)


def evened(cluster: Cluster) -> Cluster:
    """Return as many hosts, each with the mean speed and the mean card."""
    first, names = cluster.hosts[0], [host.name for host in cluster.hosts]
    rates = {way: mean(getattr(host, way) for host in cluster.hosts) for way in RATES}
    device = replace(first.devices[0], speed=mean(host.devices[0].speed for host in cluster.hosts))
    return Cluster(tuple(replace(first, name=name, devices=(device,), **rates) for name in names))


def _by_time(
    graph: Graph, costs: Profile, sized: BenchSettings, place: Place, folder: Path, *, name: str, cluster: Cluster
) -> Iterator[HostContender]:
    """Yield the plans that the simulation says take least time on a cluster, one for each schedule.

    They run, and are predicted, on the hosts as they are.
    """
    wanted = sized.plan_settings("hybrid", "auto", sized.k)
    for schedule in (SYNC, ASYNC):
        wish = api.FlowWish(schedule, None if schedule == SYNC else sized.in_flight)
        best = api.place_by_time(graph, costs, wanted, cluster, wish, api.Watch(sized.time_limit_s)).best
        planned = Planned(name, sized.k, best.plan, api.runnable(graph, best.plan, costs), best.micro_batches)
        rows = _ours(planned, sized, place, folder / schedule, is_auto=False)
        found = next(one for one in rows if one.row.schedule == schedule)
        yield found
        if sized.survive_every and name == BY_TIME:
            yield _surviving(found, best, cluster, sized.survive_every)


def _surviving(plain: HostContender, best: Forecast, cluster: Cluster, every: int) -> HostContender:
    """Return the same plan with a copy of every part on another host after so many updates."""
    more = 1 + survive_cost(best, cluster, every).share

    def predicted_us(paces: Paces) -> float | None:
        us = plain.predicted_us(paces)
        return us and us * more

    row = replace(plain.row, method=f"{plain.row.method}, survive", survives=True, predicted_us=predicted_us(Paces()))
    return HostContender(row, replace(plain.entry, survive_every=every), predicted_us=predicted_us)


def _data_parallel(sized: BenchSettings) -> HostContender:
    uneven = sized.batch % sized.k
    note = f"{sized.batch} rows do not split evenly over {sized.k} hosts" if uneven else ""
    row = BenchRow("torch DDP", SYNC, sized.k, 1, sized.batch, is_outside=True, note=note)
    return HostContender(row, Entry(DDP, sized.batch))


def _pipelines(sized: BenchSettings, cuts: tuple[int, ...] | None) -> Iterator[HostContender]:
    for name, way in PIPELINES:
        for number in MICRO_BATCHES:
            note = ""
            if cuts is None:
                note = f"the model is no nn.Sequential of {sized.k} modules or more that learn, between which to cut"
            elif sized.batch % number:
                note = f"{sized.batch} rows do not split evenly into {number} micro-batches"
            elif way == ONE_F_ONE_B and number < sized.k:
                note = f"it needs as many micro-batches as the {sized.k} hosts"
            row = BenchRow(f"{name} m={number}", SYNC, sized.k, 1, sized.batch, is_outside=True, note=note)
            yield HostContender(row, Entry(way, sized.batch, micro_batches=number, cuts=cuts or ()))
