"""How fast a model trains: unsplit, and by several plans, all measured by turns in one run."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median

from hyperplace.errors import HyperplaceError

PLAIN, SYNC, ASYNC = "plain", "sync", "async"


@dataclass(frozen=True)
class BenchRow:
    """One method; bytes are between parts, per mini-batch, forward and backward. None is what it does not have."""

    method: str
    schedule: str  # plain: no parts
    num_parts: int
    num_threads: int  # of each part, or of the plain loop
    images_per_s: tuple[float, ...] = ()  # of every repeat, in order
    bubble: float | None = None  # the share of time in which a part computed nothing, mean over parts
    moved_bytes: float | None = None
    predicted_bytes: int | None = None
    predicted_us: float | None = None  # of a mini-batch, by the schedule; only from measured costs
    note: str = ""  # why there are no figures

    @property
    def median(self) -> float:
        return median(self.images_per_s)

    @property
    def spread(self) -> float:
        """From the slowest repeat to the fastest, as a share of the median."""
        return (max(self.images_per_s) - min(self.images_per_s)) / self.median


@dataclass(frozen=True, repr=False)
class Bench:
    """All methods of one run; the first row is the plain loop on one thread."""

    model: str
    inputs: tuple[tuple[int, ...], ...]
    k: int
    batch: int
    steps: int  # mini-batches of a repeat
    imbalance: float
    costs: str
    machine: str
    num_cores: int  # that all methods shared
    rows: tuple[BenchRow, ...]

    def __post_init__(self) -> None:
        if faults := list(self._faults()):
            raise HyperplaceError("not a bench: " + "; ".join(faults))

    def _faults(self) -> Iterator[str]:
        if not self.rows or (self.rows[0].schedule, self.rows[0].num_threads) != (PLAIN, 1):
            yield "its first row is not the plain loop on one thread"
        for row in self.rows:
            if bool(row.images_per_s) == bool(row.note):
                yield f"{row.method} needs either figures or a note that says why there are none"
            if not all(math.isfinite(speed) and speed > 0 for speed in row.images_per_s):
                yield f"{row.method} has a speed that is none: {row.images_per_s}"

    def __repr__(self) -> str:
        best = self.best
        found = f", best {best.method} {best.schedule} {self.speed_up(best, self.rows[0]):.2f}x" if best else ""
        return f"Bench({self.model}, k={self.k}, {len(self.rows)} methods{found})"

    @property
    def threaded(self) -> BenchRow:
        """The plain loop on k threads; on one where k is 1."""
        return next(row for row in reversed(self.rows) if row.schedule == PLAIN)

    @property
    def best(self) -> BenchRow | None:
        """The fastest of those that are split into k parts."""
        split = [row for row in self.rows if row.schedule != PLAIN and row.num_parts == self.k and row.images_per_s]
        return max(split, key=lambda row: row.median, default=None)

    @staticmethod
    def speed_up(row: BenchRow, base: BenchRow) -> float:
        """Return how many times as fast a row is, by medians."""
        return row.median / base.median
