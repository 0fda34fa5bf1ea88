"""Run a schedule without computing anything: does it end, how long does a mini-batch take, what is held meanwhile.

Messages take no time, so the period is the best that parts which only wait for each other can reach.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from hyperplace.steps.simulate.engine import run
from hyperplace.steps.simulate.gates import gated, whole
from hyperplace.steps.simulate.tasks import Spans, enough_batches, steady_period, tasks_of
from hyperplace.values.derived.actions import Node, durations
from hyperplace.values.program import Program, Send
from hyperplace.values.schedule import BACKWARD, FORWARD, Schedule


@dataclass(frozen=True)
class DryRun:
    """What a run of some mini-batches takes; times in the program's unit, bytes for mini-batches as planned."""

    period: float  # from mini-batch to mini-batch, once the pipe is full
    length: float  # of all mini-batches
    busy: tuple[float, ...]  # of every part, for one mini-batch
    live: tuple[int, ...]  # most mini-batches a part holds activations of
    saved_bytes: tuple[int, ...]  # most that a part keeps for backward passes, with what it has received
    waiting_bytes: tuple[int, ...]  # most that has been sent to a part and not yet been taken


def dry_run(
    program: Program,
    schedule: Schedule,
    num_batches: int | None = None,
    *,
    rows: int | None = None,
    posted: Collection[int] = (),
) -> DryRun:
    """Run mini-batches through a schedule; raise UsageError if parts wait for each other, or an action is missing.

    Bytes are those of mini-batches of so many `rows`, as planned by default, without the messages that are `posted`:
    received into memory that is theirs from the beginning.
    """
    count = num_batches or enough_batches(schedule)
    spans = whole(run(gated(tasks_of(program, schedule, count))).spans)
    return _summary(program, spans, schedule.depth + 1, _Moments(program, spans, rows or program.batch, posted))


def _summary(program: Program, spans: Spans, depth: int, moments: "_Moments") -> DryRun:
    """Return what the times of all actions say; the first and the last `depth` mini-batches fill and drain the pipe."""
    work = durations(program, {node for _, node in spans})
    numbers = range(len(program.parts))
    busy = tuple(sum(time for node, time in work.items() if node[0] == p) for p in numbers)
    return DryRun(
        period=max(steady_period(spans, depth), *busy),
        length=max(end for _, end in spans.values()),
        busy=busy,
        live=tuple(_most(moments.live(p)) for p in numbers),
        saved_bytes=tuple(_most(moments.saved(p)) for p in numbers),
        waiting_bytes=tuple(_most(moments.waiting(p)) for p in numbers),
    )


Change = tuple[float, int]  # when, by how much


def _most(changes: Iterable[Change]) -> int:
    """Return the largest sum on the way; of what changes at one time, what goes away goes first."""
    total = most = 0
    for _, amount in sorted(changes):
        total += amount
        most = max(most, total)
    return most


class _Moments:
    """When things are held, from the times of all actions."""

    def __init__(self, program: Program, spans: Spans, rows: int, posted: Collection[int]) -> None:
        self._program, self._spans, self._rows = program, spans, rows
        self._batches = sorted({batch for batch, _ in spans})
        self._senders = {
            give.message: (p, s)  # of every message
            for p, part in enumerate(program.parts)
            for s, segment in enumerate(part.segments)
            for give in segment.gives
            if isinstance(give, Send)
        }
        self._taken = [
            {number: first for number, first in part.first_takers.items() if number not in posted}
            for part in program.parts
        ]

    def _begin(self, batch: int, node: Node) -> float:
        return self._spans[batch, node][0]

    def _end(self, batch: int, node: Node) -> float:
        return self._spans[batch, node][1]

    def live(self, p: int) -> Iterator[Change]:
        """Yield +1 and -1 for every mini-batch that a part begins and is done with."""
        segments = range(len(self._program.parts[p].segments))
        for batch in self._batches if segments else ():
            yield min(self._begin(batch, (p, FORWARD, s)) for s in segments), 1
            yield max(self._end(batch, (p, BACKWARD, s)) for s in segments), -1

    def saved(self, p: int) -> Iterator[Change]:
        """Yield what a part keeps from a segment's forward to its backward pass, and of every message it takes.

        What is recomputed or offloaded is there while the segment runs backward.
        """
        share = self._rows / self._program.batch
        for batch in self._batches:
            for s, segment in enumerate(self._program.parts[p].segments):
                taken = sum(self._bytes(number) for number, first in self._taken[p].items() if first == s)
                saved, kept = round(segment.saved_bytes * share), round(segment.kept_bytes * share)
                forward, backward = (p, FORWARD, s), (p, BACKWARD, s)
                yield self._begin(batch, forward), taken + (kept if segment.is_lean else saved)
                if segment.is_lean:
                    yield self._begin(batch, backward), saved - kept
                yield self._end(batch, backward), -taken - saved

    def waiting(self, p: int) -> Iterator[Change]:
        """Yield every message to a part, from when it is sent until it is taken; gradients that come back too."""
        for batch in self._batches:
            for number, first in self._taken[p].items():
                source, segment = self._senders[number]
                yield self._end(batch, (source, FORWARD, segment)), self._bytes(number)
                yield self._begin(batch, (p, FORWARD, first)), -self._bytes(number)
            for message in self._program.messages:
                if message.source == p and message.learns and message.number in self._taken[message.target]:
                    first = self._taken[message.target][message.number]
                    yield self._end(batch, (message.target, BACKWARD, first)), self._bytes(message.number)
                    sender = self._senders[message.number][1]
                    yield self._begin(batch, (p, BACKWARD, sender)), -self._bytes(message.number)

    def _bytes(self, number: int) -> int:
        return self._program.messages[number].num_bytes(self._rows, self._program.batch)
