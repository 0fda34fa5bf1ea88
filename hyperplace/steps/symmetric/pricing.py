"""The cheapest single part at given prices: a small integer program without any symmetry between parts."""

from dataclasses import dataclass

import numpy as np

from hyperplace.steps.symmetric.crowding import Crowd
from hyperplace.steps.symmetric.milp import Program, Solver
from hyperplace.steps.symmetric.part import MIB, add_part, received_shares
from hyperplace.values.arrays import Floats
from hyperplace.values.runs import Runs

TOLERANCE = 1e-6  # HiGHS takes a row or a whole number for met within this


@dataclass(frozen=True)
class Part:
    """The shares of one part, and a proven lower bound on cost minus earnings of any part."""

    share: Floats
    least: float


class Pricing:
    """The program of one part; crowds add columns that earn their price where the part has any of their runs."""

    def __init__(self, runs: Runs, limit: float, unit_bytes: float) -> None:
        self._runs, self._unit_bytes = runs, unit_bytes
        self._program = Program()
        self._columns = add_part(self._program, runs, limit)
        self._program.cost = [cost * MIB / unit_bytes for cost in self._program.cost]
        for run, (share, is_open) in enumerate(zip(self._columns.share, self._columns.is_open, strict=True)):
            if share != is_open:  # open means a filter at least, or a crowd would be paid for nothing
                self._program.row({share: 1.0, is_open: -1.0 / float(runs.sizes[run])}, low=0.0)
        self._earning = list(self._columns.share)
        self._solver = Solver(self._program, gap=0.0)

    def add(self, crowds: list[Crowd]) -> None:
        """Let a part earn something by being one of the parts of a crowd."""
        for crowd in crowds:
            self._earning.append(self._program.column())
            members = {self._columns.is_open[run]: -1.0 for run in crowd.runs}
            self._program.row({self._earning[-1]: 1.0, **members}, high=0.0)
        self._solver = Solver(self._program, gap=0.0)

    def cheapest(self, prices: Floats, *, close_enough: float, time_limit_s: float) -> Part | None:
        """Return about the cheapest part at these prices of runs and crowds; None where the time was too short."""
        cost = np.array(self._program.cost)
        cost[self._earning] -= prices
        self._solver.change_costs(cost)
        answer = self._solver.solve(close_enough=close_enough, time_limit_s=time_limit_s)
        if answer.values is None:
            return None
        share = np.clip(answer.values[self._columns.share], 0.0, 1.0)
        least = min(answer.bound, 0.0) - TOLERANCE * float(np.abs(prices).sum())  # an empty part earns nothing
        return Part(np.where(share < 2 * TOLERANCE, 0.0, share), least)

    def cost_of(self, share: Floats) -> float:
        """Return what a part with these shares receives, in units."""
        whole_bytes = self._runs.sizes * self._runs.map_bytes
        return float(received_shares(self._runs, share) @ whole_bytes) / self._unit_bytes
