"""The steps of a part while a plan is lowered, and how they are cut into segments: runs that wait for nobody.

lower.py makes the steps, layers.py and parts.py write them down. A segment ends before a step that needs a message not
yet received, and after a step that sends, so that others wait no longer than they must. All its messages are needed by
its first step, so segments in the order of their first layers depend only on earlier ones: every part can run its own
in order, then backwards in reverse, without a deadlock.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import IntEnum

from hyperplace.steps.lower.holdings import Held, Wanted, pick
from hyperplace.values.plan import Range, Ranges, Shard
from hyperplace.values.program import Message


class Stage(IntEnum):
    """The kinds of steps, in the order of one layer's."""

    INPUT = 0
    COMPUTE = 1
    TOTAL = 2
    PARTIAL = 3
    FINISH = 4
    OUTPUT = 5


@dataclass(frozen=True)
class Sent:
    """A message with what it carries: filters by rows, of which result of several."""

    message: Message
    filters: Ranges
    rows: Range
    result: int = 0


@dataclass(frozen=True)
class Tile:
    """Filters by rows of a layer that one part makes, and what it reads for them."""

    variable: str
    filters: Ranges
    rows: Range
    operands: tuple[tuple[Wanted, ...], ...] = ()

    @property
    def held(self) -> Held:
        return Held(self.variable, self.filters, self.rows)


@dataclass(frozen=True)
class Step:
    """One stage of one layer on one part.

    A layer whose batch norms see rows that are apart is computed in runs, each from one norm to before the next;
    between two of them a step puts together the statistics.
    """

    layer: str
    stage: Stage
    tiles: tuple[Tile, ...] = ()
    shards: tuple[Shard, ...] = ()
    operands: tuple[tuple[Wanted, ...], ...] = ()  # of shards, and of the model's outputs
    reads: tuple[str, ...] = ()
    makes: tuple[str, ...] = ()
    sends: tuple[Sent, ...] = ()
    run: int = 0
    is_run: bool = False


@dataclass
class PartSteps:
    """The steps of one part, with what it holds of every layer and what it receives."""

    part: int
    steps: list[Step] = field(default_factory=list)
    held: dict[str, dict[int, list[Held]]] = field(default_factory=dict)  # by layer and result
    partials: dict[str, list[Held]] = field(default_factory=dict)
    statistics: dict[tuple[str, int], list[Held]] = field(default_factory=dict)  # by layer and run: of single parts
    totals: dict[tuple[str, int], list[Held]] = field(default_factory=dict)  # and of all rows
    received: dict[str, Message] = field(default_factory=dict)  # by variable

    def variables(self, pieces: tuple[Wanted, ...], rows: Range) -> Iterator[str]:
        """Yield the tensors that hold the wanted cells; of a layer with several results all, as they travel."""
        for piece in pieces:
            for held in self.held.get(piece.layer, {0: []}).values():
                lines = pick(piece.layer, (piece.filters,), rows, held)
                yield from (found.variable for line in lines for found in line)

    def hold(self, layer: str, result: int, held: Held) -> None:
        self.held.setdefault(layer, {}).setdefault(result, []).append(held)

    def own(self, layer: str, result: int = 0) -> list[Held]:
        """Return what the part made of a layer itself."""
        return [held for held in self.held[layer][result] if held.variable not in self.received]


@dataclass(frozen=True)
class Run:
    """The steps of one segment: what they take from outside, and what later segments and other parts get."""

    steps: tuple[Step, ...]
    takes: tuple[str, ...]
    keeps: tuple[str, ...]

    @property
    def messages(self) -> tuple[Message, ...]:
        return tuple(sent.message for step in self.steps for sent in step.sends)


def cut(part: PartSteps) -> list[Run]:
    """Return the part's segments in order."""
    runs: list[list[Step]] = [[]]
    known: set[str] = set()
    for step in part.steps:
        news = {v for v in step.reads if v in part.received} - known
        if news and runs[-1]:
            runs.append([])
        known |= news
        runs[-1].append(step)
        if step.sends:
            runs.append([])
    runs = [run for run in runs if run]
    return [_segment(run, _read(runs[number + 1 :])) for number, run in enumerate(runs)]


def _read(runs: list[list[Step]]) -> set[str]:
    return {variable for run in runs for step in run for variable in step.reads}


def _segment(run: list[Step], read_later: set[str]) -> Run:
    made = {variable for step in run for variable in step.makes}
    reads = dict.fromkeys(variable for step in run for variable in step.reads if variable not in made)
    feeds = [variable for step in run if step.stage is Stage.INPUT for variable in step.makes]
    keeps = tuple(v for step in run for v in step.makes if v in read_later)
    return Run(tuple(run), (*feeds, *reads), keeps)
