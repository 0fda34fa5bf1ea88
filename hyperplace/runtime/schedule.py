"""When every part runs which segment of which mini-batch: a schedule that repeats with every mini-batch.

Time is cut into ticks; in each tick one new mini-batch may enter. An action (forward or backward of one segment) with
offset o works in tick t on the mini-batch that entered in tick t - o, and a part does its actions of a tick always in
the same order. So the order is known before anything runs, whatever the threads do: the same weights are seen by the
same mini-batches in every run, and a part that waits always waits for something that will come.

Three segments on two parts, with up to two mini-batches in flight:

    part 0:  F0  B0-1        part 0 runs forward segment 0, then backward segment 0 of the mini-batch before
    part 1:  F0  F1  B1  B0

The order is found by modulo scheduling: actions of one mini-batch are given start times that respect what they need
and never overlap, modulo the period, with those of other mini-batches on the same part. The period is the shortest,
from the heaviest part's work upwards, for which no action lies more than `in_flight` - 1 ticks behind.

A part whose weights others have copies of updates them in an action of its own (U), once all of them have run their
backward passes. Other parts update right after their last backward segment. Where gradients are scaled by the norm of
all parts' together, every part with weights first tells the others its own (N), and updates (U) once all have told
theirs: two actions, for who waited for the others before telling them would wait in a circle.
"""

from bisect import insort
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil

from hyperplace.runtime.table import Keep, Receive, Segment, Send

FORWARD, BACKWARD, NORM, UPDATE = "F", "B", "N", "U"
FORWARD_SHARE = 1 / 3  # of a segment's work; the backward pass makes two products for the forward's one
LEAST_SHARE = 1e-6  # of all work, for segments that only pass something on: starts must differ
GROWTH = 1.03  # of the period, from try to try
SLACKS = (0.3, 0.1, 0.0)  # of the period: how long a message may take before somebody waits; the most that fits is used

TOLERANCE = 1e-9  # of the period, for sums that round; far below the least work

Node = tuple[int, str, int]  # part, kind, segment
Lenders = Mapping[int, Collection[int]]  # part -> parts with copies of its weights


@dataclass(frozen=True)
class Action:
    """Forward or backward of one segment, a norm or an update, for the mini-batch that entered `offset` ticks ago."""

    kind: str
    segment: int
    offset: int = 0

    def __str__(self) -> str:
        what = self.kind if self.kind in (NORM, UPDATE) else f"{self.kind}{self.segment}"
        return what + (f"-{self.offset}" if self.offset else "")


@dataclass(frozen=True)
class Schedule:
    """The actions of every part in one tick, in order; and how they were found, on one mini-batch's time line."""

    actions: tuple[tuple[Action, ...], ...]
    spans: Mapping[Node, tuple[float, float]] = field(default_factory=dict, compare=False, repr=False)  # start and end
    period: float = field(default=1.0, compare=False, repr=False)

    def __str__(self) -> str:
        return "\n".join(f"part {p}:  " + "  ".join(map(str, row)) for p, row in enumerate(self.actions))

    @property
    def depth(self) -> int:
        """The most ticks an action lies behind."""
        return max((action.offset for row in self.actions for action in row), default=0)

    def delay(self, owner: int, users: Iterable[tuple[int, int]]) -> int:
        """Return after how many ticks an owner's update is done before any user, a part's segment, runs forward."""
        begin = min(self.spans[part, FORWARD, segment][0] for part, segment in users)
        ticks = ceil((self.spans[owner, UPDATE, 0][1] - begin) / self.period - TOLERANCE)
        # An update that ends just after its last tick still begins in it, so nobody waits in a circle for it.
        return min(max(1, ticks), self.depth + 1)

    def live(self, part: int) -> int:
        """Return how many mini-batches a part holds activations of at most."""
        forward = {a.segment: a.offset for a in self.actions[part] if a.kind == FORWARD}
        backward = {a.segment: a.offset for a in self.actions[part] if a.kind == BACKWARD}
        order = {(a.kind, a.segment): n for n, a in enumerate(self.actions[part])}
        return max(
            (backward[s] - forward[s] + (order[FORWARD, s] < order[BACKWARD, s]) for s in forward),
            default=0,
        )


def schedule(
    parts: Sequence[Sequence[Segment]], in_flight: int, lenders: Lenders | None = None, *, with_norms: bool = False
) -> Schedule:
    """Return the order in which the parts run their segments with at most `in_flight` mini-batches under way.

    `with_norms`: the lenders, some of which may lend to nobody, are all parts with weights, and tell each other norms.
    """
    needs = dependencies(parts, lenders, with_norms=with_norms)
    work = _durations(parts, needs)
    order = _topological(needs)
    total = sum(work.values())
    period = max((sum(work[n] for n in work if n[0] == p) for p in range(len(parts))), default=1.0)
    while in_flight > 1 and period < total:
        for slack in SLACKS:
            starts = _placed(order, needs, work, period, slack * period)
            if starts is not None and all(start // period < in_flight for start in starts.values()):
                return _rows(starts, work, period, len(parts))
        period *= GROWTH
    return _rows(_placed(order, needs, work, 2 * total + 1, 0.0) or {}, work, 2 * total + 1, len(parts))


def _durations(parts: Sequence[Sequence[Segment]], nodes: Iterable[Node]) -> dict[Node, float]:
    work: dict[Node, float] = {}
    least = max(1.0, LEAST_SHARE * sum(segment.work for segments in parts for segment in segments))
    for p, segments in enumerate(parts):
        for s, segment in enumerate(segments):
            work[p, FORWARD, s] = max(segment.work, least) * FORWARD_SHARE
            work[p, BACKWARD, s] = max(segment.work, least) * (1 - FORWARD_SHARE)
    return work | {node: least * FORWARD_SHARE for node in nodes if node[1] in (NORM, UPDATE)}


def dependencies(
    parts: Sequence[Sequence[Segment]], lenders: Lenders | None = None, *, with_norms: bool = False
) -> dict[Node, set[Node]]:
    """Return for every action of a mini-batch the actions that must come before it."""
    needs: dict[Node, set[Node]] = {}
    maker: dict[tuple[int, str, int], tuple[int, int]] = {}  # (part, name, target part) -> (part, segment)
    for p, segments in enumerate(parts):
        for s, segment in enumerate(segments):
            needs[p, FORWARD, s] = set()
            needs[p, BACKWARD, s] = {(p, FORWARD, s)}
            for give in segment.gives:
                if isinstance(give, Keep):
                    maker[p, give.name, p] = (p, s)
                elif isinstance(give, Send):
                    maker[p, give.name, give.target] = (p, s)
    for p, segments in enumerate(parts):
        first: dict[tuple[str, int], int] = {}  # the segment that sends a received tensor's gradient back
        for s, segment in enumerate(segments):
            for take in segment.takes:
                if not isinstance(take, Keep | Receive):
                    continue
                source = take.source if isinstance(take, Receive) else p
                made = maker[source, take.name, p]
                needs[p, FORWARD, s].add((made[0], FORWARD, made[1]))
                needs[made[0], BACKWARD, made[1]].add((p, BACKWARD, s))
                lead = first.setdefault((take.name, source), s)
                if lead != s:
                    needs[p, BACKWARD, lead].add((p, BACKWARD, s))
    for p, borrowers in (lenders or {}).items():
        backward = {(q, BACKWARD, s) for q in (p, *borrowers) for s in range(len(parts[q]))}
        needs[p, NORM if with_norms else UPDATE, 0] = backward
        if with_norms:
            needs[p, UPDATE, 0] = {(q, NORM, 0) for q in lenders or ()}
    return needs


def _topological(needs: dict[Node, set[Node]]) -> list[Node]:
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


def _placed(
    order: list[Node], needs: dict[Node, set[Node]], work: dict[Node, float], period: float, slack: float
) -> dict[Node, float] | None:
    """Return a start for every action, or None if one finds no gap on its part that repeats with the period."""
    busy: dict[int, list[tuple[float, float]]] = {}
    starts: dict[Node, float] = {}
    for node in order:
        ready = max((starts[n] + work[n] + (slack if n[0] != node[0] else 0.0) for n in needs[node]), default=0.0)
        start = _gap(busy.setdefault(node[0], []), ready, work[node], period)
        if start is None:
            return None
        starts[node] = start
        for low, high in _folded(start, start + work[node], period):
            insort(busy[node[0]], (low, high))
    return starts


def _gap(busy: list[tuple[float, float]], ready: float, length: float, period: float) -> float | None:
    """Return the first start, not before `ready`, that keeps clear of what is busy in every period."""
    tolerance = TOLERANCE * period
    for candidate in (ready, *_ends_after(busy, ready, period)):
        pieces = _folded(candidate, candidate + length, period)
        if all(
            high <= low_b + tolerance or low >= high_b - tolerance for low, high in pieces for low_b, high_b in busy
        ):
            return candidate
    return None


def _ends_after(busy: list[tuple[float, float]], ready: float, period: float) -> list[float]:
    base = ready // period * period
    ends = {base + shift + high for _, high in busy for shift in (0.0, period)}
    return sorted(end for end in ends if ready < end < ready + period)


def _folded(start: float, stop: float, period: float) -> list[tuple[float, float]]:
    """Return an interval as intervals within one period."""
    low, length = start % period, stop - start
    if length > period:
        return [(0.0, period)]
    if low + length <= period:
        return [(low, low + length)]
    return [(low, period), (0.0, low + length - period)]


def _rows(starts: dict[Node, float], work: dict[Node, float], period: float, num_parts: int) -> Schedule:
    rows: list[list[tuple[float, Action]]] = [[] for _ in range(num_parts)]
    for (p, kind, s), start in starts.items():
        rows[p].append((start % period, Action(kind, s, int(start // period))))
    actions = tuple(tuple(a for _, a in sorted(row, key=lambda item: item[0])) for row in rows)
    return Schedule(actions, {node: (start, start + work[node]) for node, start in starts.items()}, period)
