"""How fast a model trains: unsplit, and by several plans, all measured by turns in one run."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median

from hyperplace.errors import HyperplaceError

PLAIN, SYNC, ASYNC = "plain", "sync", "async"
TOGETHER = "plain loop, all hosts at once"  # images/s of the slowest: what memory and cores that they share leave


@dataclass(frozen=True)
class Paces:
    """How many times as long work takes in a run as its layers took alone: while other cores rest, and while all work.

    Machines change their pace between a profile and a bench, layers may take less together than each alone, and cores
    that share memory are slower when all work: a prediction is to be held against a measurement at the pace of the same
    run, and a method whose parts take turns is not slowed by what slows those that work side by side.
    """

    alone: float = 1.0
    together: tuple[float, ...] = (1.0,)  # of every host, or one for all

    def at(self, crowding: float) -> tuple[float, ...]:
        """Return the paces where so large a share of the others is at work while a part is.

        Alone only the first host was timed: the others are taken to lose as much by company as it does.
        """
        first = self.together[0]
        return tuple((self.alone + (first - self.alone) * crowding) * one / first for one in self.together)


@dataclass(frozen=True)
class BenchRow:
    """One method; bytes are between parts, per mini-batch, forward and backward. None is what it does not have."""

    method: str
    schedule: str  # plain: no parts
    num_parts: int
    num_threads: int  # of each part, or of the plain loop
    batch: int  # rows of a mini-batch
    images_per_s: tuple[float, ...] = ()  # of every repeat, in order
    bubble: float | None = None  # the share of time in which a part computed nothing, mean over parts
    moved_bytes: float | None = None
    predicted_bytes: int | None = None
    predicted_us: float | None = None  # of a mini-batch at the pace of the profile; only from measured costs
    idle: float | None = None  # the share of the hosts' cores that nobody used, whatever waited for what
    wire_bytes: float | None = None  # per mini-batch, what all hosts' cards sent
    is_outside: bool = False  # somebody else's way to split a model
    is_auto: bool = False  # the plan that grain auto returns
    survives: bool = False  # with copies of every part on another host
    note: str = ""  # why there are no figures
    paces: tuple[float, ...] = ()  # of every host, where each trains by itself: by what its layers took alone
    predicted_here_us: float | None = None  # at the pace of its run, where a network goes on at its own

    @property
    def median(self) -> float:
        return median(self.images_per_s)

    @property
    def spread(self) -> float:
        """From the slowest repeat to the fastest, as a share of the median."""
        return (max(self.images_per_s) - min(self.images_per_s)) / self.median


@dataclass(frozen=True, repr=False)
class Bench:
    """All methods of one run, one batch size after the other; the first row of each is the plain loop on one thread."""

    model: str
    inputs: tuple[tuple[int, ...], ...]
    k: int
    steps: int  # mini-batches of a repeat, at most
    imbalance: float
    costs: str
    machine: str
    num_cores: int  # that all methods shared
    rows: tuple[BenchRow, ...]
    network: str = ""  # what lies between the parts where they are processes

    def __post_init__(self) -> None:
        if faults := list(self._faults()):
            raise HyperplaceError("not a bench: " + "; ".join(faults))

    def _faults(self) -> Iterator[str]:
        if not self.rows:
            yield "it has no rows"
        for batch in self.batches:
            first = self.rows_of(batch)[0]
            if (first.schedule, first.num_threads) != (PLAIN, 1) or first.note:
                yield f"its first row of batch {batch} is not the plain loop on one thread"
        for row in self.rows:
            if bool(row.images_per_s) == bool(row.note):
                yield f"{row.method} needs either figures or a note that says why there are none"
            if not all(math.isfinite(speed) and speed > 0 for speed in row.images_per_s):
                yield f"{row.method} has a speed that is none: {row.images_per_s}"

    def __repr__(self) -> str:
        best = self.best
        found = f", best {best.method} {best.schedule} {self.speed_up(best):.2f}x" if best else ""
        num_methods = len({(row.method, row.schedule) for row in self.rows})
        return f"Bench({self.model}, k={self.k}, {num_methods} methods{found})"

    @property
    def batches(self) -> tuple[int, ...]:
        return tuple(dict.fromkeys(row.batch for row in self.rows))

    def rows_of(self, batch: int) -> tuple[BenchRow, ...]:
        return tuple(row for row in self.rows if row.batch == batch)

    @property
    def has_threads(self) -> bool:
        """Whether the plain loop also ran on more than one thread."""
        return any(row.schedule == PLAIN and row.num_threads > 1 for row in self.rows)

    @property
    def best(self) -> BenchRow | None:
        """The fastest of the plans that split the model into k parts."""
        split = [row for row in self.rows if self._is_split(row) and row.images_per_s]
        return max(split, key=lambda row: row.median, default=None)

    def _is_split(self, row: BenchRow) -> bool:
        return row.schedule != PLAIN and row.num_parts == self.k and not row.is_outside

    def speed_up(self, row: BenchRow) -> float:
        """Return how many times as fast a row is as the plain loop on one thread, by medians."""
        return row.median / self.rows_of(row.batch)[0].median

    def paces(self, batch: int) -> Paces:
        """Return the paces of the plain loop, on one core and on that of every host, where there are several."""
        rows = [row for row in self.rows_of(batch) if row.schedule == PLAIN and row.predicted_us and row.images_per_s]
        found = {row.method: 1e6 * batch / row.median / row.predicted_us for row in rows if row.predicted_us}
        alone = next(iter(found.values()), 1.0)
        together = next((row.paces for row in rows if row.paces), (found.get(TOGETHER, alone),))
        return Paces(alone, together)

    def predicted_us(self, row: BenchRow) -> float | None:
        """Return what a mini-batch of a row is predicted to take at the pace of this run; of the plain loop nothing."""
        if row.predicted_us is None or row.schedule == PLAIN:
            return None
        return row.predicted_here_us or row.predicted_us * self.paces(row.batch).alone

    def threads_speed_up(self, row: BenchRow) -> float:
        """Return how many times as fast a row is as the plain loop on the most threads it ran on."""
        plain = [one for one in self.rows_of(row.batch) if one.schedule == PLAIN and one.method != TOGETHER]
        return row.median / plain[-1].median
