"""How many parts a set of runs needs at least: its work by the limit, rounded up.

Single parts are chosen in fractions by the pricing bound, so that a set worth 2.1 parts lies on 2.1 of them; but 2.1
parts are 3. Rows that say so for consecutive runs (the rounded capacity cuts of vehicle routing) raise the bound of
VGG16 at k = 8 from 443 to 534 MiB. The sets looked at are the windows of the topological order; a single run needs as
many parts as its whole filters do, which is more where only a few fit on a part.
"""

from dataclasses import dataclass

import numpy as np

from hyperplace.steps.symmetric.part import largest_share, opens
from hyperplace.values.arrays import Floats
from hyperplace.values.runs import Runs

SAFE = 1e-6  # below the next whole number, whatever rounding did
LEAST = 0.05  # parts by which a row must be violated to be worth its place


@dataclass(frozen=True)
class Crowd:
    """Runs that together need at least so many parts."""

    runs: tuple[int, ...]
    num_parts: int

    def is_on(self, share: Floats) -> bool:
        """Say whether a part with these shares counts."""
        return bool((share[list(self.runs)] > 0).any())


def crowded(runs: Runs, limit: float, parts: Floats, amounts: Floats) -> list[Crowd]:
    """Return the crowds that lie on too few parts, the worst first, where amounts[j] of part j are chosen.

    Row j of `parts` has its shares.
    """
    members = np.array([run for run in opens(runs) if runs.work[run] > 0], np.int64)
    needed = (runs.sizes * runs.work)[members] / limit
    is_on, found = parts[:, members] > 0, []
    for first in range(len(members)):
        least = np.ceil(np.cumsum(needed[first:]) - SAFE)
        least[0] = np.ceil(1 / largest_share(runs, int(members[first]), limit) - SAFE)
        lack = least - amounts @ np.logical_or.accumulate(is_on[:, first:], axis=1)
        for i in np.flatnonzero(lack > LEAST).tolist():
            found.append((lack[i], Crowd(tuple(members[first : first + i + 1].tolist()), int(least[i]))))
    found.sort(key=lambda pair: -pair[0])
    return [crowd for _, crowd in found]
