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
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from math import ceil, inf
from random import Random

from hyperplace.values.cluster import Cluster
from hyperplace.values.derived.actions import Needs, Node, durations, needs_of, parcels_of, publisher_of
from hyperplace.values.derived.traffic import Card, card_seconds, lags_of, seconds
from hyperplace.values.loans import Loan, loans_of, users_of
from hyperplace.values.program import Program
from hyperplace.values.schedule import BACKWARD, FORWARD, UPDATE, Action, Schedule

GROWTH = 1.03  # of the period, from try to try
SLACKS = (0.3, 0.1, 0.0)  # of the period: how long a message may take before somebody waits; the most that fits is used
TRIES = 64  # with gaps at random, for a period
MOST_PLACED = 40_000  # actions in all tries: a second at most, however long the program
FREELY = 0.4  # how often a try takes another gap than the first
TOLERANCE = 1e-9  # of the period, for sums that round; far below the least work

Span = tuple[float, float]  # begin and end
Weight = tuple[int, str]  # its owner and attribute
Spans = dict[Node, Span]  # of every action, on one mini-batch's time line


def schedule(
    program: Program,
    in_flight: int = 4,
    *,
    is_sync: bool = False,
    clips: bool = False,
    cluster: Cluster | None = None,
) -> Schedule:
    """Return the order in which the parts run their segments with at most `in_flight` mini-batches under way.

    `is_sync`: all parts update on a command of their own, so nobody updates here. `clips`: gradients are scaled by the
    norm of all parts' together. With a cluster, messages take as long as its network needs for them.
    """
    needs = needs_of(program, is_sync=is_sync, clips=clips)
    parcels = parcels_of(program, clips=clips, lends=not is_sync) if cluster else []
    # Whatever is recomputed or offloaded, the order is the same: so are then the weights that mini-batches see, and all
    # losses.
    work = seconds(program, durations(program, needs, recomputes=False), cluster, offloads=False)
    problem = _Problem(needs, work, lags_of(parcels, work, cluster))
    starts, period = _starts(problem, in_flight, card_seconds(parcels, cluster))
    spans = {node: (start, start + work[node]) for node, start in starts.items()}
    actions = _rows(starts, period, len(program.parts))
    depth = max((action.offset for row in actions for action in row), default=0)
    loans = () if is_sync else loans_of(program)
    most = max(in_flight, depth + 1) if cluster else depth + 1  # without, nothing is known of what takes longer
    publishers = _publishers(loans)
    delays = {
        weight: _delay(problem, spans, period, [(publishers[weight, part], (part, s)) for part, s in users], most=most)
        for weight, users in users_of(program.parts, loans).items()
    }
    return Schedule(actions, delays)


class _Problem:
    """The actions of a mini-batch in an order in which what each needs comes first, and how long all takes."""

    def __init__(self, needs: Needs, work: Mapping[Node, float], lags: Mapping[tuple[Node, Node], float]) -> None:
        self.order = _topological(needs)
        self.needs = {node: [(need, lags.get((need, node), 0.0)) for need in needs[node]] for node in self.order}
        self.work, self.lags = work, lags
        self.after = dict.fromkeys(self.order, 0.0)  # how long it takes from an action's start to the last one's
        for node in reversed(self.order):
            for need, lag in self.needs[node]:
                self.after[need] = max(self.after[need], work[need] + lag + self.after[node])


def _starts(problem: _Problem, in_flight: int, cards: Mapping[Card, float]) -> tuple[dict[Node, float], float]:
    """Return a start for every action, and the period with which they repeat."""
    busy: dict[int, float] = defaultdict(float)
    for node, work in problem.work.items():
        busy[node[0]] += work
    period = max((*busy.values(), *cards.values()), default=1.0)
    total = sum(problem.work.values()) + sum(problem.lags.values())
    random, num_tries = Random(0), MOST_PLACED // max(1, len(problem.order))
    while in_flight > 1 and period < total:
        placed = partial(_placed, problem, period, in_flight * period)
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
    return _placed(problem, 2 * total + 1, inf, 0.0) or {}, 2 * total + 1


def _latency(starts: dict[Node, float]) -> float:
    """Return when the last action of a mini-batch begins."""
    return max(starts.values(), default=0.0)


def _publishers(loans: Iterable[Loan]) -> dict[tuple[Weight, int], set[Node]]:
    """Return by which actions new values of a weight come to every part: of several slices several."""
    found: dict[tuple[Weight, int], set[Node]] = defaultdict(set)
    for loan in loans:
        weight = loan.owner, loan.lent
        found[weight, loan.owner] = {(loan.owner, UPDATE, 0)}
        found[weight, loan.borrower].add(publisher_of(loan))
    return found


def _delay(
    problem: _Problem, spans: Spans, period: float, users: Iterable[tuple[set[Node], tuple[int, int]]], *, most: int
) -> int:
    """Return after how many ticks an update has reached every user, a part's segment, when it runs forward.

    Each comes with the actions that bring it there.
    """
    late = [
        spans[node][1] + problem.lags.get((node, (part, FORWARD, segment)), 0.0) - spans[part, FORWARD, segment][0]
        for nodes, (part, segment) in users
        for node in nodes
    ]
    # An update that ends just after its last tick still begins in it, so nobody waits in a circle for it.
    return min(max(1, ceil(max(late) / period - TOLERANCE)), most)


def _topological(needs: Needs) -> list[Node]:
    """Return the actions so that what each needs comes first; forward before backward, by segment where free."""
    order: list[Node] = []
    done: set[Node] = set()
    todo = sorted((n for n in needs if n[1] == FORWARD), key=lambda n: (n[2], n[0]))
    todo += sorted((n for n in needs if n[1] == BACKWARD), key=lambda n: (-n[2], n[0]))
    todo += sorted(n for n in needs if n[1] not in (FORWARD, BACKWARD))
    while todo:
        ready = [n for n in todo if needs[n] <= done]
        assert ready, "segments wait for each other in a circle"
        order += ready
        done |= set(ready)
        todo = [n for n in todo if n not in done]
    return order


def _placed(
    problem: _Problem, period: float, end: float, slack: float, random: Random | None = None
) -> dict[Node, float] | None:
    """Return a start for every action, or None if one finds no gap on its part or the last would begin after `end`."""
    work = problem.work
    busy: dict[int, list[Span]] = {}
    starts: dict[Node, float] = {}
    for node in problem.order:
        ready = 0.0
        for need, lag in problem.needs[node]:
            ready = max(ready, starts[need] + work[need] + lag + (slack if need[0] != node[0] else 0.0))
        gaps = _gaps(busy.setdefault(node[0], []), ready, work[node], period)
        if random is not None and random.random() < FREELY:
            start = random.choice([start for gap in gaps for start in gap] or [inf])
        else:
            start = next(gaps, (inf, inf))[0]
        if start + problem.after[node] >= end or start == inf:
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
