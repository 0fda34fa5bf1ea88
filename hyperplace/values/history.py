"""How training went, epoch by epoch: several methods, each from several seeds."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from hyperplace.errors import HyperplaceError


@dataclass(frozen=True)
class HistoryRow:
    """One run after one epoch."""

    seed: int
    method: str
    epoch: int  # how many are done, from 1
    seconds: float  # wall time of the run so far
    train_loss: float
    test_accuracy: float  # 0 .. 1


@dataclass(frozen=True, repr=False)
class History:
    """All runs of one comparison; `name` says what was trained, such as `lenet5 on fashion-mnist, k=2`."""

    name: str
    rows: tuple[HistoryRow, ...]

    def __post_init__(self) -> None:
        if faults := [fault for row in self.rows for fault in _row_faults(row)] or list(self._run_faults()):
            raise HyperplaceError("not a history: " + "; ".join(faults))

    def _run_faults(self) -> Iterator[str]:
        for method in self.methods:
            for seed in self.seeds(method):
                for before, after in pairwise(self.run(method, seed)):
                    where = f"{method} from seed {seed}"
                    if before.epoch == after.epoch:
                        yield f"{where} has epoch {after.epoch} twice"
                    elif before.seconds > after.seconds:
                        yield f"{where} goes back in time at epoch {after.epoch}"

    def __repr__(self) -> str:
        num_runs = sum(len(self.seeds(method)) for method in self.methods)
        return f"History({self.name}, {num_runs} runs of {', '.join(self.methods) or 'nothing'})"

    @property
    def methods(self) -> tuple[str, ...]:
        """The methods, in the order in which they first appear."""
        return tuple(dict.fromkeys(row.method for row in self.rows))

    def seeds(self, method: str) -> tuple[int, ...]:
        return tuple(sorted({row.seed for row in self.rows if row.method == method}))

    def epochs(self, method: str) -> tuple[int, ...]:
        """The epochs that every seed of a method has reached, ascending: only these can be averaged."""
        reached = [{row.epoch for row in self.run(method, seed)} for seed in self.seeds(method)]
        return tuple(sorted(set.intersection(*reached))) if reached else ()

    def run(self, method: str, seed: int) -> tuple[HistoryRow, ...]:
        """Return the rows of one run, by epoch."""
        own = (row for row in self.rows if (row.method, row.seed) == (method, seed))
        return tuple(sorted(own, key=lambda row: row.epoch))

    def at(self, method: str, epoch: int) -> tuple[HistoryRow, ...]:
        """Return the rows of one epoch, by seed."""
        own = (row for row in self.rows if (row.method, row.epoch) == (method, epoch))
        return tuple(sorted(own, key=lambda row: row.seed))


def _row_faults(row: HistoryRow) -> Iterator[str]:
    if row.epoch < 1 or not (math.isfinite(row.seconds) and row.seconds > 0):
        yield f"{row} is at no time"
    if not math.isfinite(row.train_loss):
        yield f"{row} has no loss"
    if not 0 <= row.test_accuracy <= 1:
        yield f"{row} has an accuracy outside 0..1"
