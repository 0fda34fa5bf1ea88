"""Time the contenders on several hosts by turns: our plans, the plain loop on one of them, and what torch offers.

Plans are made beforehand and handed over as files; the workers' part of a turn is to open a contender, fill its pipe,
train while the clock runs, and close it again.
"""

import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import mean, median

import torch

from hyperplace.bench.cores import seats, seats_line
from hyperplace.bench.host_contender import HostContender, HostSettings, Place, host_contenders, seated
from hyperplace.bench.jobs import CLOSE, GIVE, OPEN, PLAIN, PLAN, PROBE, WATCH, Job, Reply, Start
from hyperplace.bench.measure import Measured, OnProgress, check_images
from hyperplace.bench.netns import Card, NoHosts, cards_line, hosts, on_loopback
from hyperplace.bench.workers import WorkerFault, Workers
from hyperplace.errors import HyperplaceError
from hyperplace.files.cluster import read_cluster
from hyperplace.files.timeline import parse_timeline
from hyperplace.models import LoadedModel, load_model
from hyperplace.values.bench import ASYNC, TOGETHER, Bench, BenchRow
from hyperplace.values.profile import machine_line

LEAST_STEPS = 2  # that are timed, however slow
# After the pipe is full, as far as a turn has time for them: whenever ranks are asked for something the one that is
# ahead waits for the other, so that the pipe runs dry, in some plans for seconds.
SETTLING_STEPS = 5
# Pages that come anew in a mini-batch once memory has found its size; each takes microseconds, on some machines 25.
FEW_FAULTS = 1000
GROWING_S = 30.0  # that memory may take to find its size


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
        first = place.hosts[0]
        start = Start(settings.spec, settings.shapes, settings.bench.seed, first.interface, settings.silence_s)
        workers = stack.enter_context(Workers(place.hosts, place.seats, start, folder))
        on_progress("measuring the network")
        probed = read_cluster(workers.ask(Job(PROBE), len(place.hosts))[0].cluster)
        if settings.bench.costs == "measured":  # FLOPs take nobody knows how long
            place = replace(place, cluster=seated(probed, place.seats))
        everyone = host_contenders(loaded, settings, place, folder, on_progress)
        _take_turns(_Run(workers, settings, place), everyone, on_progress)
    return _measured(loaded, everyone, settings, place)


@contextmanager
def _place(settings: HostSettings, on_note: Callable[[str], None]) -> Iterator[Place]:
    number = settings.bench.k
    with ExitStack() as stack:
        own, cards = stack.enter_context(seats(number, settings.shares)), settings.cards
        try:
            made = stack.enter_context(hosts(number, *cards))
            network = f"{number} emulated hosts, {cards_line(cards)}, {seats_line(own)}"
        except NoHosts as reason:
            made, cards = on_loopback(number), (Card(),)
            network = f"{number} processes on loopback, without --rate and --delay, {seats_line(own)} ({reason})"
            on_note(f"{reason}; measuring plain processes on loopback instead, without --rate and --delay")
        yield Place(made, own, cards, network)


def _take_turns(run: "_Run", everyone: list[HostContender], on_progress: OnProgress) -> None:
    """Let everybody have a turn in every round, then watch our own once more; who fails has no further turn."""
    repeats = run.settings.bench.repeats
    for number in range(repeats):
        for one in everyone:
            on_progress(f"round {number + 1} of {repeats}: {one.name}")
            _unless_it_fails(one, run.turn)
    for one in everyone:
        if one.entry.way == PLAN and not one.entry.survive_every:  # one who may outlive a host keeps no timeline
            on_progress(f"recording {one.name}")
            _unless_it_fails(one, run.watch)


def _unless_it_fails(one: HostContender, work: Callable[[HostContender], None]) -> None:
    if one.row.note:
        return
    try:
        work(one)
    except WorkerFault as fault:
        if one.entry.way == PLAIN:  # nothing to compare with
            raise HyperplaceError(f"the plain loop fails on this model: {fault}") from None
        one.row = replace(one.row, note=str(fault))


@dataclass(frozen=True)
class _Run:
    """What every turn needs."""

    workers: Workers
    settings: HostSettings
    place: Place

    def turn(self, one: HostContender) -> None:
        """Add the speed of one turn."""
        _, number = self._warmed_up(one)
        replies = self._given(one, number, settling=settling(number))
        self.workers.ask(Job(CLOSE), one.row.num_parts)
        seconds = max(reply.seconds for reply in replies)
        one.speeds.append(number * one.row.batch / seconds)
        one.each_s.append(tuple(reply.seconds / number for reply in replies))
        seats = self.place.seats
        # Each by its own clock: in async the first rank may have taken its last mini-batch when others still wait.
        busy = mean(reply.busy_s / seat.share / reply.seconds for reply, seat in zip(replies, seats, strict=False))
        one.idle.append(max(1 - busy, 0.0))
        if self.place.counts_bytes and one.row.is_outside:
            one.wire_bytes.append(sum(reply.sent_bytes for reply in replies) / number)

    def watch(self, one: HostContender) -> None:
        """Add what a recorded run shows: the bubble, the timeline, the bytes of the trainer and of the cards."""
        (given, number), pieces = self._warmed_up(one, record=True), one.entry.micro_batches
        before = given + settling(number)
        after = one.entry.in_flight if one.row.schedule == ASYNC else 1  # the steady state ends when the pipe empties
        self._given(one, number + after, settling=settling(number))
        replies = self.workers.ask(Job(WATCH), one.row.num_parts)
        self.workers.ask(Job(CLOSE), one.row.num_parts)
        whole = parse_timeline(replies[0].timeline, "the timeline of host 0")
        one.timeline = whole.between(before * pieces, (before + number) * pieces)
        bubble = float(one.timeline.bubble.mean())
        one.row = replace(one.row, bubble=bubble, moved_bytes=replies[0].moved_bytes)
        if self.place.counts_bytes:
            one.wire_bytes.append(sum(reply.sent_bytes for reply in replies) / (before + number + after))

    def _warmed_up(self, one: HostContender, *, record: bool = False) -> tuple[int, int]:
        """Open a contender, fill its pipe, and let its memory grow; return how many mini-batches that took, and how
        many to time.

        Several mini-batches in flight with their versions of a large model's weights take gigabytes, and it is many
        mini-batches until all of it is there: what a run of hours takes is not what its first seconds take.
        """
        self.workers.ask(Job(OPEN, replace(one.entry, record=record)), one.row.num_parts)
        given, deadline = 0, time.monotonic() + GROWING_S
        while True:
            replies = self._given(one, one.warm_up)
            given += one.warm_up
            if max(reply.faults for reply in replies) <= FEW_FAULTS * one.warm_up or time.monotonic() > deadline:
                return given, num_steps(max(reply.last_s for reply in replies), self.settings)

    def _given(self, one: HostContender, number: int, *, settling: int = 0) -> list[Reply]:
        return self.workers.ask(Job(GIVE, number=number, settling=settling), one.row.num_parts)


def num_steps(step_s: float, settings: HostSettings) -> int:
    """Return how many mini-batches fit into a turn: those that were asked for, or fewer of a slow method."""
    fitting = int(settings.turn_limit_s / max(step_s, 1e-9))
    return min(settings.bench.steps, max(fitting, LEAST_STEPS))


def settling(number: int) -> int:
    """Return how many mini-batches to give before those that are timed."""
    return SETTLING_STEPS if number >= SETTLING_STEPS else 0


def _measured(loaded: LoadedModel, everyone: list[HostContender], settings: HostSettings, place: Place) -> Measured:
    own = settings.bench
    found = Bench(
        model=loaded.name,
        inputs=tuple(tuple(x.shape[1:]) for x in loaded.sample),
        k=own.k,
        steps=own.steps,
        imbalance=own.imbalance,
        costs=own.costs,
        machine=machine_line(threads=1),
        num_cores=len({seat.core for seat in place.seats}),
        rows=tuple(one.finished() for one in everyone),
        network=place.network,
    )
    found = replace(
        found, rows=tuple(_with_paces(row, one, place.speeds) for row, one in zip(found.rows, everyone, strict=True))
    )
    found = replace(found, rows=tuple(_at_pace(row, one, found) for row, one in zip(found.rows, everyone, strict=True)))
    timelines = {row: one.timeline for row, one in zip(found.rows, everyone, strict=True)}
    return Measured(found, timelines[found.best] if found.best else None)


def _with_paces(row: BenchRow, one: HostContender, speeds: Sequence[float]) -> BenchRow:
    """Return the row of the plain loop on all hosts at once with the pace of each; its prediction is of the slowest."""
    if row.method != TOGETHER or row.predicted_us is None:
        return row
    took_us = [1e6 * median(some) for some in zip(*one.each_s, strict=True)]
    layers_us = [row.predicted_us * min(speeds) / speed for speed in speeds]
    return replace(row, paces=tuple(took / layers for took, layers in zip(took_us, layers_us, strict=True)))


def _at_pace(row: BenchRow, one: HostContender, found: Bench) -> BenchRow:
    """Return a row with its prediction at the pace of the run: that of the work, for cards go on at their own."""
    return row if row.note else replace(row, predicted_here_us=one.predicted_us(found.paces(row.batch)))
