"""When every part runs which segment of which mini-batch, as data that prints, parses and diffs.

Time is cut into ticks; in each tick one new mini-batch may enter. An action with offset o works in tick t on the
mini-batch that entered in tick t - o, and a part does its actions of a tick always in the same order:

    part 0:  F0  B0-1        forward of segment 0, then backward of segment 0 for the mini-batch before
    part 1:  F0  F1  B1  B0

A part whose weights others have copies of updates them in an action of its own (U), once all of them have run their
backward passes; mini-batches see each update some ticks later, everywhere in the same: `conv1_weight of part 0: 2
ticks`. Other parts update right after their last backward segment. Where gradients are scaled by the norm of all parts'
together, every part with weights first tells the others its own (N). A part by which copies of others on its host are
exchanged adds up their gradients (R) before the owner updates, and passes the new weights on (P) after.
"""

import difflib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from hyperplace.errors import UsageError

FORWARD, BACKWARD, NORM, UPDATE = "F", "B", "N", "U"
RELAY, PASS = "R", "P"  # of gradients, of new weights

_PART = re.compile(r"part (\d+):(.*)")
_ACTION = re.compile(r"([FB])(\d+)(?:-(\d+))?|([NRUP])(?:-(\d+))?")
_DELAY = re.compile(r"(\S+) of part (\d+): (\d+) ticks?")


@dataclass(frozen=True)
class Action:
    """What is done for the mini-batch that entered `offset` ticks ago; a segment runs only forward or backward."""

    kind: str
    segment: int
    offset: int = 0

    def __str__(self) -> str:
        what = f"{self.kind}{self.segment}" if self.kind in (FORWARD, BACKWARD) else self.kind
        return what + (f"-{self.offset}" if self.offset else "")


@dataclass(frozen=True)
class Schedule:
    """The actions of every part in one tick, in order; `delays` are the ticks until an update of a lent weight is seen.

    Weights are named by their owner and its attribute.
    """

    actions: tuple[tuple[Action, ...], ...]
    delays: Mapping[tuple[int, str], int] = field(default_factory=dict)

    def __str__(self) -> str:
        rows = [f"part {p}:  " + "  ".join(map(str, row)) for p, row in enumerate(self.actions)]
        lent = [f"{name} of part {p}: {t} tick{'s' * (t != 1)}" for (p, name), t in sorted(self.delays.items())]
        return "\n".join(row.rstrip() for row in (*rows, *lent))

    @property
    def depth(self) -> int:
        """The most ticks an action lies behind."""
        return max((action.offset for row in self.actions for action in row), default=0)

    @property
    def drain(self) -> int:
        """The empty ticks after which nothing is under way and the next mini-batch sees all updates before it."""
        return max((self.depth, *(delay - 1 for delay in self.delays.values())))

    def live(self, part: int) -> int:
        """Return how many mini-batches a part holds activations of at most."""
        return max(self.lives(part).values(), default=0)

    def lives(self, part: int) -> dict[int, int]:
        """Return of how many mini-batches at most each segment of a part waits for its backward pass."""
        forward = {a.segment: a.offset for a in self.actions[part] if a.kind == FORWARD}
        backward = {a.segment: a.offset for a in self.actions[part] if a.kind == BACKWARD}
        order = {(a.kind, a.segment): n for n, a in enumerate(self.actions[part])}
        return {s: backward[s] - forward[s] + (order[FORWARD, s] < order[BACKWARD, s]) for s in forward}

    def diff(self, other: "Schedule") -> str:
        """Return what another schedule does differently, line by line; nothing where they are the same."""
        lines = difflib.ndiff(str(self).splitlines(), str(other).splitlines())
        return "\n".join(line for line in lines if line[0] in "+-")


def parse_schedule(text: str) -> Schedule:
    """Return the schedule that a text prints."""
    rows: list[tuple[Action, ...]] = []
    delays: dict[tuple[int, str], int] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if match := _PART.fullmatch(line):
            if int(match[1]) != len(rows):
                raise UsageError(f"line {number} of the schedule is of part {match[1]}, not of part {len(rows)}")
            rows.append(tuple(_actions(match[2], number)))
        elif match := _DELAY.fullmatch(line):
            delays[int(match[2]), match[1]] = int(match[3])
        elif line.strip():
            raise UsageError(f"line {number} of the schedule, {line[:60]!r}, is no part and no delay")
    return Schedule(tuple(rows), delays)


def _actions(text: str, line: int) -> Iterator[Action]:
    for word in text.split():
        match = _ACTION.fullmatch(word)
        if not match:
            raise UsageError(
                f"line {line} of the schedule has {word[:20]!r}, which is not written like F0, B1-2, N, R, U-1 or P"
            )
        kind, segment, offset, alone, behind = match.groups()
        yield Action(kind or alone, int(segment or 0), int(offset or behind or 0))
