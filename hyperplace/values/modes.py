"""A graph seen through its symmetry where rows may be split too: a way to split every run, and shares.

Rows of the batch are interchangeable like filters, so of a run split by filters or by rows only how many of them
sit on each part matters. Volumes are bytes of training: activations with their gradients, and what replicas cost.
"""

from dataclasses import dataclass

import numpy as np

from hyperplace.values.arrays import ArrayValue, Floats, Ints, frozen_ints
from hyperplace.values.runs import Runs


@dataclass(frozen=True, eq=False, repr=False)
class HybridRuns(ArrayValue):
    """Runs whose map_bytes are those of training, and what splitting their rows takes."""

    runs: Runs
    batch: int
    copy_bytes: Ints  # of every run: what each part that computes some of its rows costs, besides the first
    splits_rows: Ints  # 1 where rows may be apart

    def __repr__(self) -> str:
        return f"HybridRuns({len(self.copy_bytes)} runs, batch {self.batch})"

    @property
    def work(self) -> Floats:
        """The work of every whole run."""
        return self.runs.sizes * self.runs.work

    @property
    def whole_bytes(self) -> Ints:
        """The bytes of every whole run's output."""
        return self.runs.sizes * self.runs.map_bytes

    def units(self, by_rows: Ints) -> Ints:
        """Return into how many filters or rows every run can be split."""
        return np.where(by_rows, self.batch, self.runs.sizes)


@dataclass(frozen=True, eq=False, repr=False)
class ModeShares(ArrayValue):
    """counts[r, p]: how many filters of run r part p owns, or, where by_rows[r], how many rows."""

    counts: Ints
    by_rows: Ints
    found_by: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "counts", frozen_ints(self.counts))
        object.__setattr__(self, "by_rows", frozen_ints(self.by_rows))

    def __repr__(self) -> str:
        return f"ModeShares({self.counts.shape[0]} runs on {self.counts.shape[1]} parts by {self.found_by})"


def modes_work(hybrid: HybridRuns, shares: ModeShares) -> Floats:
    """Return the work of every part."""
    return (hybrid.work / hybrid.units(shares.by_rows)) @ shares.counts


def modes_volume(hybrid: HybridRuns, shares: ModeShares) -> float:
    """Return the bytes of training where runs lie on each other as well as they can."""
    share = shares.counts / hybrid.units(shares.by_rows)[:, None]
    copies = np.maximum((shares.counts > 0).sum(axis=1) - 1, 0) * shares.by_rows
    volume = float(copies @ hybrid.copy_bytes)
    for run, size in enumerate(hybrid.whole_bytes.tolist()):
        rows, filters = _wanted(hybrid.runs, shares.by_rows, share, run)
        along, across = (rows, filters) if shares.by_rows[run] else (filters, rows)
        beyond = np.maximum(along - share[run], 0)
        volume += size * float((beyond + (1 - share[run] - beyond) * across).sum())
    return volume


def _wanted(runs: Runs, by_rows: Ints, share: Floats, run: int) -> tuple[Floats, Floats]:
    """Return, for every part, of which share of rows it reads all filters, and of which share of filters all rows."""
    rows, filters = np.zeros(share.shape[1]), np.zeros(share.shape[1])
    for reader in runs.readers[run]:
        rows = np.maximum(rows, share[reader] if by_rows[reader] else share[reader] > 0)
    for reader in runs.tied[run]:
        if by_rows[reader]:
            rows = np.maximum(rows, share[reader])
        else:
            filters = np.maximum(filters, share[reader])
    return rows, filters
