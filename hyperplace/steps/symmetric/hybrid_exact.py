"""The hybrid placement as a mixed-integer program: every run is split by filters or by rows, over any of the parts.

On part q run r has the share f[r, q] = by_filters + by_rows, of which only one is not 0: by_filters sum up to m[r] over
the parts, by_rows to 1 - m[r], for a binary m. Part q wants, of whatever r reads, all rows where it has filters of r
(has_filters), and its own share of rows where it has rows: received[l, q] >= has_filters[r, q] + by_rows[r, q] -
f[l, q]. Parts with rows, but one, cost a copy of the weights. That is exact but for a run split by filters that is read
by one split by rows, or the reverse channel by channel, where the part has less of what it wants: there it is too low.
So the bound holds for every placement that splits each run one way, and its solutions must be judged. Parts are
interchangeable; HiGHS sees that by itself, and ordering them by load only hinders it.
"""

from dataclasses import dataclass, replace

import numpy as np

from hyperplace.steps.symmetric.milp import Program, Solver
from hyperplace.steps.symmetric.part import MIB, TINY
from hyperplace.steps.symmetric.rounding import rounded
from hyperplace.values.arrays import Floats, Ints
from hyperplace.values.modes import HybridRuns, ModeShares

GAP = 1e-3  # where the search stops
SLACK = 1e-6  # of the limit: what rounding a weight may add, so that the bound stays a bound


@dataclass(frozen=True)
class HybridExact:
    """The best shares found (None: none, or none that whole filters and rows allow), and a lower bound."""

    shares: ModeShares | None
    bound_bytes: float
    is_complete: bool


@dataclass(frozen=True)
class _Part:
    """The columns of every run on one part; -1 where a run has none."""

    by_filters: list[int]
    by_rows: list[int]
    has_filters: list[int]
    has_rows: list[int]
    received: list[int]

    def share(self, run: int, times: float = 1.0) -> dict[int, float]:
        """Return the run's share of the part as terms of a row."""
        return {column: times for column in (self.by_filters[run], self.by_rows[run]) if column >= 0}


class HybridProgram:
    """One program, ready to be solved once; `cancel` ends it from another thread."""

    def __init__(self, hybrid: HybridRuns, limits: Floats, *, seed: int = 0, threads: int = 1) -> None:
        self._hybrid, self._limits = hybrid, limits
        program, numbers, num_parts = Program(), range(len(hybrid.copy_bytes)), len(limits)
        self._is_by_filters = [program.column(is_integer=True) for _ in numbers]
        self._copies = [program.column(float(cost) / MIB, num_parts) for cost in hybrid.copy_bytes]
        self._parts = [_add_part(program, hybrid, self._is_by_filters) for _ in range(num_parts)]
        for run, number in np.argwhere(hybrid.runs.barred).tolist():
            for column in self._parts[number].share(run):
                program.upper[column] = 0.0
        for run in numbers:
            self._add_run(program, run)
        for part, limit in zip(self._parts, limits.tolist(), strict=True):
            program.row(_load(hybrid, part, limit), high=1.0 + SLACK)
        self._num_columns = len(program.cost)
        self._solver = Solver(program, threads=threads, gap=GAP, seed=seed)

    def _add_run(self, program: Program, run: int) -> None:
        """Add what holds for a run over all parts: it is somewhere, split one way, and copied."""
        way, parts = self._is_by_filters[run], self._parts
        program.row({part.by_filters[run]: 1.0 for part in parts} | {way: -1.0}, low=0.0, high=0.0)
        if not self._hybrid.splits_rows[run]:
            program.row({way: 1.0}, low=1.0)
            return
        program.row({part.by_rows[run]: 1.0 for part in parts} | {way: 1.0}, low=1.0, high=1.0)
        copied = {part.has_rows[run]: -1.0 for part in parts}
        program.row({self._copies[run]: 1.0, way: -1.0} | copied, low=-1.0)
        # A run on a single part is split by filters, by name: two names for one thing make the search twice as long.
        program.row(dict.fromkeys(copied, 1.0) | {way: 2.0}, low=2.0)

    def run(self, *, start: ModeShares | None = None, time_limit_s: float = np.inf) -> HybridExact:
        """Search until proven, until the time is up or until cancelled."""
        begin = self._columns_of(start) if start is not None else None
        answer = self._solver.solve(time_limit_s=time_limit_s, start=begin)
        bound = max(answer.bound, 0.0) * MIB
        shares = self._rounded(answer.values) if answer.values is not None else None
        return HybridExact(shares, bound, answer.is_complete)

    def cancel(self) -> None:
        self._solver.cancel()

    def _rounded(self, values: Floats) -> ModeShares | None:
        by_rows = (values[self._is_by_filters] < 0.5).astype(np.int64)
        shares = np.array(
            [
                [values[part.by_rows[run] if split else part.by_filters[run]] for part in self._parts]
                for run, split in enumerate(by_rows.tolist())
            ]
        )
        units = self._hybrid.units(by_rows)
        runs = replace(self._hybrid.runs, sizes=units, work=self._hybrid.work / units)
        counts = rounded(runs, shares, self._limits)
        return ModeShares(counts, by_rows, "exact") if counts is not None else None

    def _columns_of(self, start: ModeShares) -> Floats:
        """Return shares as values of the columns."""
        share: Floats = start.counts / self._hybrid.units(start.by_rows)[:, None]
        num_open = (share > 0).sum(axis=1)
        by_rows = np.where(num_open > 1, start.by_rows, 0)
        columns = np.zeros(self._num_columns)
        columns[self._is_by_filters] = 1 - by_rows
        columns[self._copies] = by_rows * (num_open - 1)
        for number, part in enumerate(self._parts):
            self._fill(columns, part, share[:, number], by_rows)
        return columns

    def _fill(self, columns: Floats, part: _Part, share: Floats, by_rows: Ints) -> None:
        runs = self._hybrid.runs
        for run, split in enumerate(by_rows.tolist()):
            some, any_of = (part.by_rows, part.has_rows) if split else (part.by_filters, part.has_filters)
            columns[any_of[run]] = share[run] > 0
            columns[some[run]] = share[run]
            wants = [share[r] if by_rows[r] else share[r] > 0 for r in runs.readers[run]]
            wants += [share[r] for r in runs.tied[run]]
            columns[part.received[run]] = max(0.0, max(wants, default=0.0) - share[run])


def _add_part(program: Program, hybrid: HybridRuns, is_by_filters: list[int]) -> _Part:
    """Add one part: what it may have of every run, and what it receives."""
    part = _Part([], [], [], [], [])
    for run, way in enumerate(is_by_filters):
        part.has_filters.append(program.column(is_integer=True))
        part.by_filters.append(part.has_filters[run] if hybrid.runs.is_solid[run] else program.column())
        if not hybrid.runs.is_solid[run]:
            program.row({part.by_filters[run]: 1.0, part.has_filters[run]: -1.0}, high=0.0)
        program.row({part.has_filters[run]: 1.0, way: -1.0}, high=0.0)
        part.by_rows.append(program.column() if hybrid.splits_rows[run] else -1)
        part.has_rows.append(program.column(is_integer=True) if hybrid.splits_rows[run] else -1)
        if hybrid.splits_rows[run]:
            program.row({part.by_rows[run]: 1.0, part.has_rows[run]: -1.0}, high=0.0)
            program.row({part.has_rows[run]: 1.0, way: 1.0}, high=1.0)
        part.received.append(program.column(float(hybrid.whole_bytes[run]) / MIB))
    for run, received in enumerate(part.received):
        for reader in hybrid.runs.readers[run]:
            wants = {part.has_filters[reader]: -1.0}
            if part.by_rows[reader] >= 0:
                wants[part.by_rows[reader]] = -1.0
            program.row({received: 1.0} | part.share(run) | wants, low=0.0)
        for reader in hybrid.runs.tied[run]:
            program.row({received: 1.0} | part.share(run) | part.share(reader, -1.0), low=0.0)
    return part


def _load(hybrid: HybridRuns, part: _Part, limit: float) -> dict[int, float]:
    """Return the part's work as a multiple of the limit; where that is 0 any work is far too much."""
    terms: dict[int, float] = {}
    for run, work in enumerate(hybrid.work.tolist()):
        if work:
            terms |= part.share(run, work / (limit or TINY * hybrid.runs.total_work))
    return terms
