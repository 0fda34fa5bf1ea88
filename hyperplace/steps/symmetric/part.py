"""One part as the columns and rows of a program: the piece that both the exact placement and the bound are made of.

share[r] in 0..1 is how much of run r the part has, is_open[r] is 1 where it has any, and received[r] is how much of
run r it must receive: received[r] >= is_open[c] - share[r] for every c that reads all of r, and share[c] - share[r] for
every c that reads it channel by channel. Runs with the same readers (the branches of a concatenation) share one column
that says whether any of those readers is open, which makes the program smaller and its branching stronger.
"""

from dataclasses import dataclass

import numpy as np

from hyperplace.steps.symmetric.milp import Program
from hyperplace.values.arrays import Floats
from hyperplace.values.runs import Runs

TINY = 1e-9  # of all work
MIB = 2.0**20  # objectives are in MiB, so that HiGHS's tolerances are small against them


@dataclass(frozen=True)
class PartColumns:
    """The columns of every run on one part; is_open is the share itself where openness does not matter.

    `wants` maps a set of readers to the column that is 1 where any of them is open; `filters` has a column for every
    run whose filters must be whole, and which may be split.
    """

    share: list[int]
    is_open: list[int]
    received: list[int]
    wants: dict[frozenset[int], int]
    filters: dict[int, int]


def add_part(program: Program, runs: Runs, limit: float, *, is_whole: bool = False) -> PartColumns:
    """Add one part to the program: what it may hold, in whole filters where asked, and what it costs."""
    whole_bytes = runs.sizes * runs.map_bytes / MIB
    reader_sets = [frozenset(runs.readers[run]) for run in range(len(runs.layers))]
    has_open = set(opens(runs))
    share = [program.column(is_integer=bool(solid)) for solid in runs.is_solid]
    is_open = [
        program.column(is_integer=True) if run in has_open and not runs.is_solid[run] else share[run]
        for run in range(len(share))
    ]
    part = PartColumns(share, is_open, [program.column(float(cost)) for cost in whole_bytes], {}, {})
    for run, readers in enumerate(reader_sets):
        most = largest_share(runs, run, limit)
        if is_open[run] != share[run]:
            program.row({share[run]: 1.0, is_open[run]: -most}, high=0.0)
        elif not runs.is_solid[run]:
            program.upper[share[run]] = most
        if readers:
            wanted = _wanted(program, part, readers)
            program.row({part.received[run]: 1.0, wanted: -1.0, share[run]: 1.0}, low=0.0)
        for reader in runs.tied[run]:
            program.row({part.received[run]: 1.0, share[reader]: -1.0, share[run]: 1.0}, low=0.0)
    program.row(load_terms(runs, share, limit), high=1.0)
    for run in np.flatnonzero(runs.is_solid == 0).tolist() if is_whole else ():
        part.filters[run] = program.column(upper=float(runs.sizes[run]), is_integer=True)
        program.row({share[run]: float(runs.sizes[run]), part.filters[run]: -1.0}, low=0.0, high=0.0)
    return part


def opens(runs: Runs) -> list[int]:
    """Return the runs whose openness matters and is a whole number: those that read all of another, and solid ones."""
    return sorted({*runs.readers.targets.tolist(), *np.flatnonzero(runs.is_solid).tolist()})


def largest_share(runs: Runs, run: int, limit: float) -> float:
    """Return the largest share of a run that one part can hold, in whole filters.

    The solver does not see that in the row of loads, where filters are divisible.
    """
    if not runs.work[run]:
        return 1.0
    filters = np.floor(limit / runs.work[run] * (1 + 1e-9))
    return float(min(1.0, filters / runs.sizes[run]))


def _wanted(program: Program, part: PartColumns, readers: frozenset[int]) -> int:
    """Return the column that is 1 where any of the readers is open."""
    if readers not in part.wants:
        if len(readers) == 1:
            part.wants[readers] = part.is_open[next(iter(readers))]
        else:
            part.wants[readers] = program.column(is_integer=True)
            for reader in sorted(readers):
                program.row({part.wants[readers]: 1.0, part.is_open[reader]: -1.0}, low=0.0)
    return part.wants[readers]


def load_terms(runs: Runs, share: list[int], limit: float) -> dict[int, float]:
    """Return the part's work as a multiple of the limit; where that is 0 any work is far too much."""
    work = runs.sizes * runs.work / (limit or TINY * runs.total_work or 1.0)
    return {share[run]: float(w) for run, w in enumerate(work) if w}


def received_shares(runs: Runs, share: Floats) -> Floats:
    """Return how much of every run a part with these shares must receive."""
    received = np.zeros(len(share))
    for run in range(len(share)):
        needed = [share[reader] for reader in runs.tied[run]] + [float(share[r] > 0) for r in runs.readers[run]]
        received[run] = max(0.0, max(needed, default=0.0) - share[run])
    return received
