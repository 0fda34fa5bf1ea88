"""A graph seen through its symmetry: runs of interchangeable filters instead of filters.

All filters of a run weigh the same and have the same readers, so only how many of them sit on each part matters.
What part q receives of run r is everything it does not own where a run that reads all of r is on q, and otherwise as
much as the largest share of a run that reads r channel by channel. Volume is the sum of that over runs and parts.
"""

from dataclasses import dataclass, field

import numpy as np

from hyperplace.values.arrays import ArrayValue, Floats, Ints, frozen_ints


@dataclass(frozen=True, eq=False, repr=False)
class Links(ArrayValue):
    """For every run a list of other runs, as offsets plus targets."""

    offsets: Ints
    targets: Ints

    def __post_init__(self) -> None:
        object.__setattr__(self, "offsets", frozen_ints(self.offsets))
        object.__setattr__(self, "targets", frozen_ints(self.targets))

    @classmethod
    def of(cls, lists: list[set[int]]) -> "Links":
        targets = [run for runs in lists for run in sorted(runs)]
        return cls(np.cumsum([0, *(len(runs) for runs in lists)]), np.array(targets, np.int64))

    def __getitem__(self, run: int) -> list[int]:
        targets: list[int] = self.targets[self.offsets[run] : self.offsets[run + 1]].tolist()
        return targets

    def reversed(self, num_targets: int | None = None) -> "Links":
        """Return the lists the other way round; targets are runs too unless their number is told."""
        num_lists = len(self.offsets) - 1
        lists: list[set[int]] = [set() for _ in range(num_lists if num_targets is None else num_targets)]
        for run in range(num_lists):
            for target in self[run]:
                lists[target].add(run)
        return Links.of(lists)


@dataclass(frozen=True, eq=False, repr=False)
class Runs(ArrayValue):
    """The runs of a graph, in topological order."""

    layers: tuple[str, ...]  # of every run
    start: Ints  # its first filter
    sizes: Ints  # its number of filters
    work: Floats  # of one filter, for the batch
    map_bytes: Ints  # of one filter, for the batch
    is_solid: Ints  # 1 where all of it must stay on one part
    readers: Links  # the runs that read all of it as soon as they hold anything
    tied: Links  # the runs that read it channel by channel
    # [run, part]: 1 where the part may have none of it; empty where every part may have all
    barred: Ints = field(default_factory=lambda: np.zeros((0, 0), np.int64))

    def __repr__(self) -> str:
        return f"Runs({len(self.layers)} runs of {int(self.sizes.sum()):,} filters)"

    @property
    def total_work(self) -> float:
        return float(self.sizes @ self.work)


@dataclass(frozen=True, eq=False, repr=False)
class Shares(ArrayValue):
    """filters[r, p]: how many filters of run r part p owns."""

    filters: Ints
    found_by: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "filters", frozen_ints(self.filters))

    def __repr__(self) -> str:
        return f"Shares({self.filters.shape[0]} runs on {self.filters.shape[1]} parts by {self.found_by})"


def shares_volume(runs: Runs, shares: Shares) -> float:
    """Return the bytes that cross in the forward pass where tied runs lie as well as they can."""
    volume = 0.0
    for run in range(len(runs.layers)):
        needed = np.zeros(shares.filters.shape[1])
        for reader in runs.tied[run]:
            ratio = runs.sizes[run] / runs.sizes[reader]
            needed = np.maximum(needed, shares.filters[reader] * ratio)
        for reader in runs.readers[run]:
            needed[shares.filters[reader] > 0] = runs.sizes[run]
        volume += float(np.maximum(needed - shares.filters[run], 0).sum()) * int(runs.map_bytes[run])
    return volume


def kept_off(runs: Runs, counts: Ints, unit_work: Floats, limits: Floats) -> Ints:
    """Return the counts with what barred parts have of a run on the part with most room that may have it."""
    kept, load = np.array(counts), unit_work @ counts
    for run in np.flatnonzero((kept * runs.barred).any(axis=1)).tolist() if runs.barred.size else ():
        moved = kept[run] * runs.barred[run]
        load -= moved * unit_work[run]
        target = int(np.argmax(np.where(runs.barred[run], -np.inf, limits - load)))
        kept[run] -= moved
        kept[run, target] += moved.sum()
        load[target] += moved.sum() * unit_work[run]
    return kept


def shares_work(runs: Runs, shares: Shares) -> Floats:
    """Return the work of every part."""
    return runs.work @ shares.filters
