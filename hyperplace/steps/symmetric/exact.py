"""The exact placement: a mixed-integer program over the shares of every run on every part.

Parts of one limit are interchangeable; ordering them by their load leaves one of the k! copies of each solution. Shares
are fractions first, which is much faster, and rounded to whole filters. Where that loses something, as it does where
filters are few, the program is solved again in whole filters. HiGHS proves VGG16 at k = 2 and 4 in seconds; beyond that
it improves a given start and its bound is weak (bound.py does better there).
"""

import time
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import numpy as np

from hyperplace.steps.symmetric.milp import Program, Solver
from hyperplace.steps.symmetric.part import MIB, PartColumns, add_part, load_terms, received_shares
from hyperplace.steps.symmetric.rounding import rounded
from hyperplace.values.arrays import Floats, Ints
from hyperplace.values.runs import Runs, Shares, shares_volume

GAP = 5e-4  # where a solve stops: within 0.05 % of the best possible
LOSS = 1e-3  # what rounding may lose, together with that
SLACK = 1e-6  # of the limit: what rounding a weight may add, so that the bound stays a bound


@dataclass(frozen=True)
class Exact:
    """The best shares found, if any, a proven lower bound on the volume, and whether the search ended."""

    shares: Shares | None
    bound_bytes: float
    is_complete: bool


class ExactSearch:
    """One search, to be run once; `cancel` ends it from another thread, also before it has begun."""

    def __init__(self, runs: Runs, limits: Floats, *, seed: int = 0, threads: int = 1) -> None:
        self._runs, self._is_cancelled = runs, False
        self._make = partial(_Shares, runs, limits, seed=seed, threads=threads)
        self._program = self._make(is_whole=False)

    def run(self, *, start: Shares | None = None, time_limit_s: float = np.inf) -> Exact:
        """Search until proven, until the time is up or until cancelled."""
        end = time.monotonic() + time_limit_s
        found = self._program.run(start, time_limit_s)
        if not found.is_complete or self._is_proven(found):
            return found
        self._program = self._make(is_whole=True)
        seconds_left = max(0.0, end - time.monotonic())
        better = self._program.run(found.shares or start, 0.0 if self._is_cancelled else seconds_left)
        return Exact(better.shares or found.shares, max(found.bound_bytes, better.bound_bytes), better.is_complete)

    def cancel(self) -> None:
        self._is_cancelled = True
        self._program.cancel()

    def _is_proven(self, found: Exact) -> bool:
        return found.shares is not None and shares_volume(self._runs, found.shares) * (1 - LOSS) <= found.bound_bytes


class _Shares:
    """The program of all parts, in fractions of runs or in whole filters."""

    def __init__(self, runs: Runs, limits: Floats, *, is_whole: bool, seed: int, threads: int) -> None:
        self._runs, self._limits = runs, limits
        program = Program()
        self._parts = [add_part(program, runs, limit * (1 + SLACK), is_whole=is_whole) for limit in limits.tolist()]
        for run, number in np.argwhere(runs.barred).tolist():
            part = self._parts[number]
            program.upper[part.share[run]] = program.upper[part.is_open[run]] = 0.0
        for run in range(len(runs.layers)):
            program.row({part.share[run]: 1.0 for part in self._parts}, low=1.0, high=1.0)
        for limit, alike in self._alike():
            for heavy, light in pairwise(self._parts[number] for number in alike):
                _add_order(program, runs, heavy, light, limit)
        self._num_columns = len(program.cost)
        self._solver = Solver(program, threads=threads, gap=GAP, seed=seed)

    def run(self, start: Shares | None, time_limit_s: float) -> Exact:
        begin = self._columns_of(start) if start is not None else None
        answer = self._solver.solve(time_limit_s=time_limit_s, start=begin)
        bound = max(answer.bound, 0.0) * MIB if np.isfinite(answer.bound) else 0.0  # infinite: nothing fits
        if answer.values is None:
            return Exact(None, bound, answer.is_complete)
        shares = np.array([answer.values[part.share] for part in self._parts]).T
        filters = rounded(self._runs, shares, self._limits)
        return Exact(Shares(filters, "exact") if filters is not None else None, bound, answer.is_complete)

    def cancel(self) -> None:
        self._solver.cancel()

    def _alike(self) -> list[tuple[float, list[int]]]:
        """Return every limit with the parts that have it, apart where they may not have the same runs."""
        barred, found = self._runs.barred, dict[tuple[float, bytes], list[int]]()
        for part, limit in enumerate(self._limits.tolist()):
            found.setdefault((limit, barred[:, part].tobytes() if barred.size else b""), []).append(part)
        return [(limit, parts) for (limit, _), parts in sorted(found.items())]

    def _columns_of(self, start: Shares) -> Floats:
        """Return shares as values of the columns, of parts that are alike the heaviest first."""
        load, order = self._runs.work @ start.filters, np.arange(len(self._limits))
        for _, alike in self._alike():
            order[alike] = np.array(alike)[np.argsort(-load[alike], kind="stable")]
        filters: Ints = start.filters[:, order]
        columns = np.zeros(self._num_columns)
        for number, part in enumerate(self._parts):
            share = filters[:, number] / self._runs.sizes
            for readers, wanted in part.wants.items():
                columns[wanted] = max(share[list(readers)]) > 0
            columns[part.is_open] = share > 0
            columns[part.share] = share
            columns[part.received] = received_shares(self._runs, share)
            for run, column in part.filters.items():
                columns[column] = filters[run, number]
        return columns


def _add_order(program: Program, runs: Runs, heavy: PartColumns, light: PartColumns, limit: float) -> None:
    terms = load_terms(runs, heavy.share, limit)
    for column, work in load_terms(runs, light.share, limit).items():
        terms[column] = terms.get(column, 0.0) - work
    program.row(terms, low=0.0)
