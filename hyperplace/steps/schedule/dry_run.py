"""Run a schedule without computing anything: does it end, how long does a mini-batch take, what is held meanwhile.

Every part does its actions in order, each as soon as what it needs is done; messages take no time. Who sees a lent
weight waits for the update that its mini-batch is to see. So the period is the best that parts which only wait for each
other can reach.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from hyperplace.errors import UsageError
from hyperplace.steps.schedule.schedule import Needs, Node, durations, needs_of
from hyperplace.values.loans import find_loans, users_of
from hyperplace.values.program import Program, Send
from hyperplace.values.schedule import BACKWARD, FORWARD, NORM, UPDATE, Schedule

ROUNDS = 8  # of as many mini-batches as there can be in flight, between filling the pipe and letting it run dry

Done = tuple[int, Node]  # a mini-batch's action
Spans = dict[Done, tuple[float, float]]  # when it begins and ends


@dataclass(frozen=True)
class DryRun:
    """What a run of some mini-batches takes; times in the program's unit, bytes for mini-batches as planned."""

    period: float  # from mini-batch to mini-batch, once the pipe is full
    length: float  # of all mini-batches
    busy: tuple[float, ...]  # of every part, for one mini-batch
    live: tuple[int, ...]  # most mini-batches a part holds activations of
    saved_bytes: tuple[int, ...]  # most that a part keeps for backward passes, with what it has received
    waiting_bytes: tuple[int, ...]  # most that has been sent to a part and not yet been taken


@dataclass
class _Part:
    """One part on its way through its actions."""

    todo: list[Done]
    place: int = 0
    time: float = 0.0


def dry_run(program: Program, schedule: Schedule, num_batches: int | None = None) -> DryRun:
    """Run mini-batches through a schedule; raise UsageError if parts wait for each other, or an action is missing."""
    kinds = {action.kind for row in schedule.actions for action in row}
    needs = needs_of(program, is_sync=UPDATE not in kinds, clips=NORM in kinds)
    _check_complete(program, schedule, needs)
    count = num_batches or (ROUNDS + 2) * (schedule.depth + 1)
    parts = [_Part(list(_todo(schedule, p, count))) for p in range(len(program.parts))]
    spans = _run(parts, _Waits(program, schedule, needs), durations(program, needs))
    return _summary(program, spans, schedule.depth + 1)


def _todo(schedule: Schedule, part: int, num_batches: int) -> Iterator[Done]:
    """Yield a part's actions in order: its row again and again, for the mini-batches that there are."""
    for tick in range(num_batches + schedule.depth):
        for action in schedule.actions[part]:
            if 0 <= tick - action.offset < num_batches:
                yield tick - action.offset, (part, action.kind, action.segment)


def _check_complete(program: Program, schedule: Schedule, needs: Needs) -> None:
    if len(schedule.actions) != len(program.parts):
        raise UsageError(f"the schedule has {len(schedule.actions)} parts, the program {len(program.parts)}")
    found = [(p, action.kind, action.segment) for p, row in enumerate(schedule.actions) for action in row]
    if sorted(found) != sorted(needs):
        wrong = sorted(set(found) ^ set(needs)) or sorted(node for node in set(found) if found.count(node) > 1)
        part, kind, segment = wrong[0]
        raise UsageError(
            f"the schedule has {kind}{segment} of part {part} {found.count(wrong[0])} times instead of once"
        )


class _Waits:
    """What an action of a mini-batch waits for: others of its own, and updates that it is to see."""

    def __init__(self, program: Program, schedule: Schedule, needs: Needs) -> None:
        self._needs = needs
        self._updates: dict[Node, list[tuple[int, Node]]] = {}  # how many mini-batches before, and whose
        for (owner, name), users in users_of(program.parts, find_loans(program.parts)).items():
            update = owner, UPDATE, 0
            if update in needs and (owner, name) not in schedule.delays:
                raise UsageError(f"the schedule does not say after how many ticks {name} of part {owner} is seen")
            for part, segment in users if update in needs else ():
                delay = schedule.delays[owner, name]
                self._updates.setdefault((part, FORWARD, segment), []).append((delay, update))

    def of(self, batch: int, node: Node) -> list[Done]:
        seen = self._updates.get(node, ())
        updates = [(batch - delay, update) for delay, update in seen if batch >= delay]
        return [(batch, need) for need in self._needs[node]] + updates


def _run(parts: Sequence[_Part], waits: _Waits, work: dict[Node, float]) -> Spans:
    """Let every part go as far as it can, again and again; return when every action begins and ends."""
    spans: Spans = {}
    is_moving = True
    while is_moving:
        is_moving = False
        for part in parts:
            while part.place < len(part.todo):
                batch, node = part.todo[part.place]
                wanted = waits.of(batch, node)
                if not all(one in spans for one in wanted):
                    break
                begin = max([part.time, *(spans[one][1] for one in wanted)])
                part.time = begin + work[node]
                spans[batch, node] = begin, part.time
                part.place += 1
                is_moving = True
    if stuck := [part.todo[part.place] for part in parts if part.place < len(part.todo)]:
        who = ", ".join(f"part {node[0]} before {node[1]}{node[2]} of mini-batch {batch}" for batch, node in stuck)
        raise UsageError(f"the schedule never ends: {who} wait for each other")
    return spans


def _summary(program: Program, spans: Spans, depth: int) -> DryRun:
    """Return what the times of all actions say; the first and the last `depth` mini-batches fill and drain the pipe."""
    work = durations(program, {node for _, node in spans})
    last = [0.0] * (1 + max((batch for batch, _ in spans), default=0))
    for (batch, _), (_, end) in spans.items():
        last[batch] = max(last[batch], end)
    first, final = min(3 * depth, len(last) // 2), len(last) - 1 - depth
    moments = _Moments(program, spans)
    numbers = range(len(program.parts))
    busy = tuple(sum(time for node, time in work.items() if node[0] == p) for p in numbers)
    period = (last[final] - last[first]) / (final - first) if final > first else last[-1] / len(last)
    return DryRun(
        period=max(period, *busy),  # a first mini-batch that was late, for want of others to wait for, makes it shorter
        length=max(last),
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

    def __init__(self, program: Program, spans: Spans) -> None:
        self._program, self._spans = program, spans
        self._batches = sorted({batch for batch, _ in spans})
        self._taken = [part.first_takers for part in program.parts]

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
        """Yield what a part keeps from a segment's forward to its backward pass, and of every message it takes."""
        for batch in self._batches:
            for s, segment in enumerate(self._program.parts[p].segments):
                taken = [self._bytes(number) for number, first in self._taken[p].items() if first == s]
                amount = segment.saved_bytes + sum(taken)
                yield self._begin(batch, (p, FORWARD, s)), amount
                yield self._end(batch, (p, BACKWARD, s)), -amount

    def waiting(self, p: int) -> Iterator[Change]:
        """Yield every message to a part, from when it is sent until it is taken; gradients that come back too."""
        for batch in self._batches:
            for number, first in self._taken[p].items():
                source = self._sender(number)
                yield self._end(batch, (*source[:1], FORWARD, source[1])), self._bytes(number)
                yield self._begin(batch, (p, FORWARD, first)), -self._bytes(number)
            for message in self._program.messages:
                if message.source == p and message.learns:
                    first = self._taken[message.target][message.number]
                    yield self._end(batch, (message.target, BACKWARD, first)), self._bytes(message.number)
                    yield (
                        self._begin(batch, (p, BACKWARD, self._sender(message.number)[1])),
                        -self._bytes(message.number),
                    )

    def _bytes(self, number: int) -> int:
        return self._program.messages[number].num_bytes(self._program.batch, self._program.batch)

    def _sender(self, number: int) -> tuple[int, int]:
        """Return the part and segment that send a message."""
        p = self._program.messages[number].source
        segments = self._program.parts[p].segments
        return p, next(s for s, one in enumerate(segments) if Send(number) in one.gives)
