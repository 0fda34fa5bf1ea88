"""Find the order in which parts run: Program -> Schedule.

The order is known before anything runs, whatever the threads or networks do: the same weights are seen by the same
mini-batches in every run, and a part that waits always waits for something that will come.

It is found by modulo scheduling: actions of one mini-batch are given start times that respect what they need and never
overlap, modulo the period, with those of other mini-batches on the same part. The period is the shortest, from the
heaviest part's work upwards, for which no action lies more than `in_flight` - 1 ticks behind.

Each action is put into the first gap that it fits in; where that leaves gaps too short for the long ones, gaps are
chosen at random a number of times, from a fixed seed. On parts that are busy nearly all the time nothing else finds the
shortest period: VGG16 on two parts, split by rows and by layers, took 1.16 times as long without.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from functools import partial
from math import ceil, inf
from random import Random

from hyperplace.values.loans import borrowers, find_loans, updaters, users_of
from hyperplace.values.program import Keep, Program, Receive, Send
from hyperplace.values.schedule import BACKWARD, FORWARD, NORM, UPDATE, Action, Schedule

LEAST_SHARE = 1e-6  # of all work, for segments that only pass something on: starts must differ
GROWTH = 1.03  # of the period, from try to try
SLACKS = (0.3, 0.1, 0.0)  # of the period: how long a message may take before somebody waits; the most that fits is used
TRIES = 64  # with gaps at random, for a period
MOST_PLACED = 40_000  # actions in all tries: a second at most, however long the program
FREELY = 0.4  # how often a try takes another gap than the first
TOLERANCE = 1e-9  # of the period, for sums that round; far below the least work

Node = tuple[int, str, int]  # part, kind, segment
Needs = dict[Node, set[Node]]  # what every action of a mini-batch must wait for
Span = tuple[float, float]  # begin and end
Spans = dict[Node, Span]  # of every action, on one mini-batch's time line


def schedule(program: Program, in_flight: int = 4, *, is_sync: bool = False, clips: bool = False) -> Schedule:
    """Return the order in which the parts run their segments with at most `in_flight` mini-batches under way.

    `is_sync`: all parts update on a command of their own, so nobody updates here. `clips`: gradients are scaled by the
    norm of all parts' together.
    """
    needs = needs_of(program, is_sync=is_sync, clips=clips)
    work = durations(program, needs)
    starts, period = _starts(program, needs, work, in_flight)
    spans = {node: (start, start + work[node]) for node, start in starts.items()}
    actions = _rows(starts, period, len(program.parts))
    depth = max((action.offset for row in actions for action in row), default=0)
    loans = () if is_sync else find_loans(program.parts)
    delays = {
        (owner, name): _delay(spans, period, depth, owner, users)
        for (owner, name), users in users_of(program.parts, loans).items()
    }
    return Schedule(actions, delays)


def _starts(program: Program, needs: Needs, work: dict[Node, float], in_flight: int) -> tuple[dict[Node, float], float]:
    """Return a start for every action, and the period with which they repeat."""
    order = _topological(needs)
    total = sum(work.values())
    period = max((sum(work[n] for n in work if n[0] == p) for p in range(len(program.parts))), default=1.0)
    after = _work_after(order, needs, work)
    random, num_tries = Random(0), MOST_PLACED // max(1, len(order))
    while in_flight > 1 and period < total:
        placed = partial(_placed, order, needs, work, after, period, in_flight * period)
        for slack in SLACKS:
            if starts := placed(slack * period):
                return starts, period
        for slack in SLACKS:
            tries = min(TRIES, num_tries)
            num_tries -= tries
            found = [placed(slack * period, random) for _ in range(tries)]
            if best := min(filter(None, found), key=_latency, default=None):
                return best, period
        period *= GROWTH
    return _placed(order, needs, work, after, 2 * total + 1, inf, 0.0) or {}, 2 * total + 1


def _latency(starts: dict[Node, float]) -> float:
    """Return when the last action of a mini-batch begins."""
    return max(starts.values(), default=0.0)


def durations(program: Program, nodes: Iterable[Node]) -> dict[Node, float]:
    """Return the work of every action; updates without one of their own come after the last backward pass."""
    work: dict[Node, float] = {}
    updates = {node[0] for node in nodes if node[1] == UPDATE}
    least = max(1.0, LEAST_SHARE * program.total_work)
    for p, part in enumerate(program.parts):
        for s, segment in enumerate(part.segments):
            late = part.update if s == 0 and p not in updates else 0.0
            work[p, FORWARD, s] = max(segment.forward, least)
            work[p, BACKWARD, s] = max(segment.backward + late, least)
        work |= {node: max(part.update, least) for node in nodes if node[:2] == (p, UPDATE)}
        work |= {node: least for node in nodes if node[:2] == (p, NORM)}
    return work


def _delay(spans: Spans, period: float, depth: int, owner: int, users: Iterable[tuple[int, int]]) -> int:
    """Return after how many ticks an owner's update is done before any user, a part's segment, runs forward."""
    begin = min(spans[part, FORWARD, segment][0] for part, segment in users)
    ticks = ceil((spans[owner, UPDATE, 0][1] - begin) / period - TOLERANCE)
    # An update that ends just after its last tick still begins in it, so nobody waits in a circle for it.
    return min(max(1, ticks), depth + 1)


def _topological(needs: Needs) -> list[Node]:
    """Return the actions so that what each needs comes first; forward before backward, by segment where free."""
    order: list[Node] = []
    done: set[Node] = set()
    todo = sorted((n for n in needs if n[1] == FORWARD), key=lambda n: (n[2], n[0]))
    todo += sorted((n for n in needs if n[1] == BACKWARD), key=lambda n: (-n[2], n[0]))
    todo += sorted(n for n in needs if n[1] in (NORM, UPDATE))
    while todo:
        ready = [n for n in todo if needs[n] <= done]
        assert ready, "segments wait for each other in a circle"
        order += ready
        done |= set(ready)
        todo = [n for n in todo if n not in done]
    return order


def _work_after(order: list[Node], needs: Needs, work: dict[Node, float]) -> dict[Node, float]:
    """Return for every action how long it takes at least from its start to that of the last one that waits for it."""
    after = dict.fromkeys(order, 0.0)
    for node in reversed(order):
        for need in needs[node]:
            after[need] = max(after[need], work[need] + after[node])
    return after


def _placed(
    order: list[Node],
    needs: Needs,
    work: dict[Node, float],
    after: dict[Node, float],
    period: float,
    end: float,
    slack: float,
    random: Random | None = None,
) -> dict[Node, float] | None:
    """Return a start for every action, or None if one finds no gap on its part or the last would begin after `end`."""
    busy: dict[int, list[Span]] = {}
    starts: dict[Node, float] = {}
    for node in order:
        ready = max((starts[n] + work[n] + (slack if n[0] != node[0] else 0.0) for n in needs[node]), default=0.0)
        gaps = _gaps(busy.setdefault(node[0], []), ready, work[node], period)
        if random is not None and random.random() < FREELY:
            start = random.choice([start for gap in gaps for start in gap] or [inf])
        else:
            start = next(gaps, (inf, inf))[0]
        if start + after[node] >= end or start == inf:
            return None
        starts[node] = start
        for span in _folded(start, start + work[node], period):
            _occupy(busy[node[0]], span, TOLERANCE * period)
    return starts


def _gaps(busy: list[Span], ready: float, length: float, period: float) -> Iterator[Span]:
    """Yield the first and the last start in every gap that an action of some length fits in, from `ready` on.

    What is busy repeats with the period, so a period is looked at.
    """
    if length > period or not busy:
        yield from [] if length > period else [(ready, ready)]
        return
    tolerance = TOLERANCE * period
    base = ready // period * period
    first = bisect_left(busy, (ready - base, 0.0))
    for number in range(first - 1, first + len(busy) + 1):
        turns, place = divmod(number, len(busy))
        begin = base + turns * period + busy[place][1]
        turns, place = divmod(number + 1, len(busy))
        last = base + turns * period + busy[place][0] - length
        if max(begin, ready) <= last + tolerance and begin < ready + period:
            yield max(begin, ready), max(begin, ready, last)


def _occupy(busy: list[Span], span: Span, tolerance: float) -> None:
    """Add a span to those that are busy, which lie in order; neighbours that touch become one."""
    place = bisect_left(busy, span)
    low, high = span
    if place < len(busy) and busy[place][0] <= high + tolerance:
        high = max(high, busy.pop(place)[1])
    if place and busy[place - 1][1] >= low - tolerance:
        place -= 1
        low = busy.pop(place)[0]
    busy.insert(place, (low, high))


def _folded(start: float, stop: float, period: float) -> list[Span]:
    """Return an interval as intervals within one period."""
    low, length = start % period, stop - start
    if length > period:
        return [(0.0, period)]
    if low + length <= period:
        return [(low, low + length)]
    return [(low, period), (0.0, low + length - period)]


def _rows(starts: dict[Node, float], period: float, num_parts: int) -> tuple[tuple[Action, ...], ...]:
    rows: list[list[tuple[float, Action]]] = [[] for _ in range(num_parts)]
    for (p, kind, s), start in starts.items():
        rows[p].append((start % period, Action(kind, s, int(start // period))))
    return tuple(tuple(a for _, a in sorted(row, key=lambda item: item[0])) for row in rows)


def needs_of(program: Program, *, is_sync: bool = False, clips: bool = False) -> Needs:
    """Return for every action of a mini-batch the actions that must come before it."""
    needs: Needs = {}
    maker: dict[tuple[int, str] | int, Node] = {}  # who makes what a part keeps, and every message
    for p, part in enumerate(program.parts):
        for s, segment in enumerate(part.segments):
            needs[p, FORWARD, s] = set()
            needs[p, BACKWARD, s] = {(p, FORWARD, s)}
            for give in segment.gives:
                if isinstance(give, Keep | Send):
                    maker[(p, give.name) if isinstance(give, Keep) else give.message] = (p, FORWARD, s)
    for p, part in enumerate(program.parts):
        for s, segment in enumerate(part.segments):
            for take in segment.takes:
                if isinstance(take, Keep):
                    _connect(needs, maker[p, take.name], (p, FORWARD, s))
                elif isinstance(take, Receive):
                    _connect(needs, maker[take.message], (p, FORWARD, s))
                    lead = part.first_takers[take.message]
                    if lead != s:
                        needs[p, BACKWARD, lead].add((p, BACKWARD, s))
    if not is_sync:
        _add_updates(needs, program, clips=clips)
    return needs


def _connect(needs: Needs, maker: Node, taker: Node) -> None:
    """Let a segment run forward after the one that makes what it takes, and backward before it."""
    needs[taker].add(maker)
    needs[maker[0], BACKWARD, maker[2]].add((taker[0], BACKWARD, taker[2]))


def _add_updates(needs: Needs, program: Program, *, clips: bool) -> None:
    """Let parts that lend update once all gradients are there; with clipping, all parts once all norms are told."""
    loans = find_loans(program.parts)
    lenders = updaters(program.parts, loans) if clips else borrowers(loans)
    for p, others in lenders.items():
        backward = {(q, BACKWARD, s) for q in (p, *others) for s in range(len(program.parts[q].segments))}
        needs[p, NORM if clips else UPDATE, 0] = backward
        if clips:
            needs[p, UPDATE, 0] = {(q, NORM, 0) for q in lenders}
