"""Time the contenders on several hosts by turns: our plans, the plain loop on one of them, and what torch offers.

Plans are made beforehand and handed over as files; the workers' part of a turn is to open a contender, fill its pipe,
train while the clock runs, and close it again.
"""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import mean

import torch

from hyperplace import api
from hyperplace.bench.contender import PLANS, BenchSettings, Kind, Planned, plain_row, plans
from hyperplace.bench.cores import Seat, seats, seats_line
from hyperplace.bench.jobs import CLOSE, DDP, GIVE, GPIPE, ONE_F_ONE_B, OPEN, PLAIN, PLAN, WATCH, Entry, Job, Start
from hyperplace.bench.measure import Measured, OnProgress, check_images, on_cores
from hyperplace.bench.netns import LOOPBACK, Card, Host, NoHosts, hosts, on_loopback
from hyperplace.bench.outside import stage_cuts
from hyperplace.bench.workers import WorkerFault, Workers
from hyperplace.errors import HyperplaceError, UsageError
from hyperplace.files.timeline import parse_timeline
from hyperplace.models import LoadedModel, load_model
from hyperplace.values.bench import ASYNC, SYNC, Bench, BenchRow
from hyperplace.values.plan import AUTO
from hyperplace.values.profile import machine_line
from hyperplace.values.timeline import Timeline

MOST_HOSTS = 64
LEAST_STEPS = 2  # that are timed, however slow
SYNC_WARM_UP = 2  # the first mini-batch finds out shapes and makes buffers
PIPELINES = (("torch GPipe", GPIPE), ("torch 1F1B", ONE_F_ONE_B))
MICRO_BATCHES = (2, 4, 8)
AUTO_KIND: Kind = ("auto", AUTO, "auto")


@dataclass(frozen=True)
class HostSettings:
    """The hosts, and what is measured on them: k is how many they are; every batch size has its own plans."""

    spec: str  # of the model, which every host makes for itself
    shapes: tuple[tuple[int, ...], ...] | None
    bench: BenchSettings
    card: Card = field(default_factory=Card)
    batches: tuple[int, ...] = ()  # the bench's own by default
    turn_limit_s: float = 30.0  # a slow method is timed for fewer mini-batches
    silence_s: float = 300.0  # who says nothing for so long hangs

    def __post_init__(self) -> None:
        check_hosts(self.bench.k)
        if self.turn_limit_s <= 0:
            raise UsageError(f"--turn-limit {self.turn_limit_s:g} leaves no time; give seconds above 0")
        for batch in self.batches:
            replace(self.bench, batch=batch)  # its own checks

    @property
    def sizes(self) -> tuple[BenchSettings, ...]:
        """The settings of every batch size."""
        return tuple(replace(self.bench, batch=batch) for batch in self.batches or (self.bench.batch,))


def check_hosts(number: int) -> None:
    """Refuse what are no several hosts."""
    if not 2 <= number <= MOST_HOSTS:
        raise UsageError(f"--hosts {number} is outside 2..{MOST_HOSTS}; for one host leave --hosts out")


@dataclass
class _Contender:
    """A row, how it is opened, and what its turns have given so far."""

    row: BenchRow
    entry: Entry
    speeds: list[float] = field(default_factory=list)
    idle: list[float] = field(default_factory=list)
    wire_bytes: list[float] = field(default_factory=list)
    timeline: Timeline | None = None

    @property
    def name(self) -> str:
        return f"{self.row.method} {self.row.schedule}, batch {self.row.batch}"

    @property
    def warm_up(self) -> int:
        """Mini-batches before the clock runs."""
        return self.entry.in_flight + 1 if self.row.schedule == ASYNC else SYNC_WARM_UP

    def finished(self) -> BenchRow:
        """Return the row with its figures."""
        if self.row.note:
            return self.row
        row = replace(self.row, images_per_s=tuple(self.speeds), idle=mean(self.idle))
        return replace(row, wire_bytes=mean(self.wire_bytes)) if self.wire_bytes else row


@dataclass(frozen=True)
class _Place:
    """The hosts with their cores, and what the table says of them."""

    hosts: tuple[Host, ...]
    seats: tuple[Seat, ...]
    card: Card
    network: str

    @property
    def counts_bytes(self) -> bool:
        return self.hosts[0].interface != LOOPBACK  # which carries everybody's

    @property
    def bits_per_s(self) -> float | None:
        """The cards' rate as it looks beside layers that were measured on a whole core."""
        return self.card.bits_per_s and self.card.bits_per_s / self.seats[0].share


def bench_hosts(
    settings: HostSettings,
    *,
    on_progress: OnProgress = lambda text: None,
    on_note: Callable[[str], None] = lambda text: None,
) -> Measured:
    """Measure everything on emulated hosts, or without the rights for them on processes that meet on loopback."""
    torch.manual_seed(settings.bench.seed)
    loaded = load_model(settings.spec, settings.shapes, device="cpu")
    check_images(loaded.name, loaded.sample)
    with ExitStack() as stack:
        place = stack.enter_context(_place(settings, on_note))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hyperplace-bench-")))
        everyone = _everyone(loaded, settings, place, folder, on_progress)
        first = place.hosts[0]
        start = Start(settings.spec, settings.shapes, settings.bench.seed, first.interface, settings.silence_s)
        workers = stack.enter_context(Workers(place.hosts, place.seats, start, folder))
        _take_turns(workers, everyone, settings, place, on_progress)
    return _measured(loaded, everyone, settings, place)


@contextmanager
def _place(settings: HostSettings, on_note: Callable[[str], None]) -> Iterator[_Place]:
    number = settings.bench.k
    with ExitStack() as stack:
        own, card = stack.enter_context(seats(number)), settings.card
        try:
            made = stack.enter_context(hosts(number, card))
            network = f"{number} emulated hosts, {card}, {seats_line(own)}"
        except NoHosts as reason:
            made, card = on_loopback(number), Card()
            network = f"{number} processes on loopback, without --rate and --delay, {seats_line(own)} ({reason})"
            on_note(f"{reason}; measuring plain processes on loopback instead, without --rate and --delay")
        yield _Place(made, own, card, network)


def _everyone(
    loaded: LoadedModel, settings: HostSettings, place: _Place, folder: Path, on_progress: OnProgress
) -> list[_Contender]:
    """Return all methods for all batch sizes, in the order of the table."""
    found: list[_Contender] = []
    with on_cores(settings.bench.k):
        graph = api.capture(loaded.module, loaded.sample)
        for sized in settings.sizes:
            on_progress(f"measuring layers, batch {sized.batch}")
            costs = api.profile(graph, costs=sized.costs, batch=sized.batch, threads=1)
            found.append(_Contender(plain_row(1, sized), Entry(PLAIN, sized.batch)))
            for planned, is_auto in _kinds(list(plans(graph, costs, sized, (*PLANS, AUTO_KIND), on_progress))):
                found += _ours(planned, sized, place, folder, is_auto=is_auto)
            found.append(_data_parallel(sized))
            cuts = stage_cuts(loaded.module, loaded.sample[0], graph, costs, k=sized.k, bits_per_s=place.bits_per_s)
            found += _pipelines(sized, cuts)
    return found


def _kinds(made: list[Planned]) -> Iterator[tuple[Planned, bool]]:
    """Yield the plans and whether grain auto returns them; the last is auto's own, if no other is the same."""
    *others, auto = made
    same = next((planned for planned in others if planned.plan and planned.plan == auto.plan), None)
    for planned in others:
        yield planned, planned is same
    if same is None:
        yield auto, auto.plan is not None


def _ours(
    planned: Planned, sized: BenchSettings, place: _Place, folder: Path, *, is_auto: bool
) -> Iterator[_Contender]:
    path = folder / f"{planned.name.replace(' ', '-')}-{sized.batch}.json"
    if planned.plan:
        api.save_plan(planned.plan, path)
    for schedule in (SYNC, ASYNC):
        row, flow = planned.row(schedule, sized), planned.flow(schedule, sized)
        if row.predicted_us is not None:  # layers were measured on a whole core
            row = replace(row, predicted_us=row.predicted_us / place.seats[0].share)
        entry = Entry(PLAN, sized.batch, schedule, flow.in_flight, flow.micro_batches, str(path))
        yield _Contender(replace(row, is_auto=is_auto), entry)


def _data_parallel(sized: BenchSettings) -> _Contender:
    uneven = sized.batch % sized.k
    note = f"{sized.batch} rows do not split evenly over {sized.k} hosts" if uneven else ""
    row = BenchRow("torch DDP", SYNC, sized.k, 1, sized.batch, is_outside=True, note=note)
    return _Contender(row, Entry(DDP, sized.batch))


def _pipelines(sized: BenchSettings, cuts: tuple[int, ...] | None) -> Iterator[_Contender]:
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
            yield _Contender(row, Entry(way, sized.batch, micro_batches=number, cuts=cuts or ()))


def _take_turns(
    workers: Workers, everyone: list[_Contender], settings: HostSettings, place: _Place, on_progress: OnProgress
) -> None:
    """Let everybody have a turn in every round, then watch our own once more; who fails has no further turn."""
    repeats = settings.bench.repeats
    for number in range(repeats):
        for one in everyone:
            on_progress(f"round {number + 1} of {repeats}: {one.name}")
            _unless_it_fails(one, lambda one=one: _turn(workers, one, settings, place))  # type: ignore[misc]
    for one in everyone:
        if one.entry.way == PLAN:
            on_progress(f"recording {one.name}")
            _unless_it_fails(one, lambda one=one: _watch(workers, one, settings, place))  # type: ignore[misc]


def _unless_it_fails(one: _Contender, work: Callable[[], None]) -> None:
    if one.row.note:
        return
    try:
        work()
    except WorkerFault as fault:
        if one.entry.way == PLAIN:  # nothing to compare with
            raise HyperplaceError(f"the plain loop fails on this model: {fault}") from None
        one.row = replace(one.row, note=str(fault))


def _turn(workers: Workers, one: _Contender, settings: HostSettings, place: _Place) -> None:
    num_ranks = one.row.num_parts
    workers.ask(Job(OPEN, one.entry), num_ranks)
    warm = workers.ask(Job(GIVE, number=one.warm_up), num_ranks)
    number = _num_steps(max(reply.last_s for reply in warm), settings)
    replies = workers.ask(Job(GIVE, number=number), num_ranks)
    workers.ask(Job(CLOSE), num_ranks)
    seconds = max(reply.seconds for reply in replies)
    one.speeds.append(number * one.row.batch / seconds)
    busy = mean(reply.busy_s for reply in replies) / seconds / place.seats[0].share
    one.idle.append(max(1 - busy, 0.0))
    if place.counts_bytes and one.row.is_outside:
        one.wire_bytes.append(sum(reply.sent_bytes for reply in replies) / number)


def _num_steps(step_s: float, settings: HostSettings) -> int:
    """Return how many mini-batches fit into a turn: those that were asked for, or fewer of a slow method."""
    fitting = int(settings.turn_limit_s / max(step_s, 1e-9))
    return min(settings.bench.steps, max(fitting, LEAST_STEPS))


def _watch(workers: Workers, one: _Contender, settings: HostSettings, place: _Place) -> None:
    """Add what a recorded run shows: the bubble, the timeline, the bytes of the trainer and of the cards."""
    num_ranks, pieces = one.row.num_parts, one.entry.micro_batches
    workers.ask(Job(OPEN, replace(one.entry, record=True)), num_ranks)
    warm = workers.ask(Job(GIVE, number=one.warm_up), num_ranks)
    number = _num_steps(max(reply.last_s for reply in warm), settings)
    after = one.entry.in_flight if one.row.schedule == ASYNC else 1  # the steady state ends when the pipe empties
    workers.ask(Job(GIVE, number=number + after), num_ranks)
    replies = workers.ask(Job(WATCH), num_ranks)
    workers.ask(Job(CLOSE), num_ranks)
    whole = parse_timeline(replies[0].timeline, "the timeline of host 0")
    one.timeline = whole.between(one.warm_up * pieces, (one.warm_up + number) * pieces)
    bubble = float(one.timeline.bubble.mean())
    one.row = replace(one.row, bubble=bubble, moved_bytes=replies[0].moved_bytes)
    if place.counts_bytes:
        one.wire_bytes.append(sum(reply.sent_bytes for reply in replies) / (one.warm_up + number + after))


def _measured(loaded: LoadedModel, everyone: list[_Contender], settings: HostSettings, place: _Place) -> Measured:
    own = settings.bench
    rows = [one.finished() for one in everyone]
    found = Bench(
        model=loaded.name,
        inputs=tuple(tuple(x.shape[1:]) for x in loaded.sample),
        k=own.k,
        steps=own.steps,
        imbalance=own.imbalance,
        costs=own.costs,
        machine=machine_line(threads=1),
        num_cores=len({seat.core for seat in place.seats}),
        rows=tuple(rows),
        network=place.network,
    )
    timelines = {row: one.timeline for row, one in zip(rows, everyone, strict=True)}
    return Measured(found, timelines[found.best] if found.best else None)
