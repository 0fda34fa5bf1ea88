"""The most work each part may have: the one place where an imbalance becomes a number per part."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hyperplace.errors import UsageError
from hyperplace.values.arrays import ArrayValue, Floats, Ints


@dataclass(frozen=True, eq=False, repr=False)
class Capacities(ArrayValue):
    """times_average[p] is the most work of part p as a multiple of the average part's; together at least all work."""

    times_average: Floats

    def __post_init__(self) -> None:
        times = np.array(self.times_average, np.float64)
        if not (np.all(np.isfinite(times)) and np.all(times >= 0) and times.sum() >= len(times) * (1 - 1e-12) > 0):
            raise UsageError(
                f"capacities {times.tolist()} of the average part cannot hold all work; give numbers from 0 up "
                f"that sum up to at least the number of parts"
            )
        times.setflags(write=False)
        object.__setattr__(self, "times_average", times)

    def __repr__(self) -> str:
        if self.is_even:
            return f"Capacities({self.num_parts} x {self.times_average[0]:g} of the average)"
        return f"Capacities({', '.join(f'{times:g}' for times in self.times_average)} of the average)"

    @classmethod
    def even(cls, num_parts: int, imbalance: float) -> "Capacities":
        """Return equal capacities; never more than there is."""
        return cls(np.full(num_parts, min(1 + imbalance, num_parts)))

    @classmethod
    def shared(cls, shares: Sequence[float], imbalance: float) -> "Capacities":
        """Return capacities in these proportions, such as the speeds of devices, each with room for the imbalance."""
        fair = np.asarray(shares, np.float64) * len(shares) / max(np.sum(shares), 1e-300)
        return cls(np.minimum((1 + imbalance) * fair, len(shares)))

    @property
    def num_parts(self) -> int:
        return len(self.times_average)

    @property
    def is_even(self) -> bool:
        return bool(np.all(self.times_average == self.times_average[0]))

    @property
    def tightest(self) -> "Capacities":
        """The same proportions without any room to spare."""
        if self.is_even:  # not by division: a part of exactly the average must still fit
            return Capacities(np.ones(self.num_parts))
        return Capacities(self.times_average * self.num_parts / self.times_average.sum())

    def of(self, total_work: float) -> Floats:
        """Return the most work of every part, in the unit of the total."""
        return self.times_average * total_work / self.num_parts

    def admit(self, work: Ints) -> bool:
        """Say whether no part has more work than it may."""
        return bool(np.all(work <= self.of(int(work.sum()))))
