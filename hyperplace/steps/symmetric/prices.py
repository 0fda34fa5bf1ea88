"""Prices of runs and crowds that make the bound large: a proximal bundle method.

For any prices, what all runs and crowds are worth + num_parts * (the cheapest part at these prices) is a lower bound
on the volume: a concave function of the prices, and every part seen so far gives a plane above it. The next prices are
the best ones under these planes that are not far from the best so far; without that pull the prices swing wildly, and
a graph of 70 runs takes hundreds of parts instead of forty.
"""

import numpy as np

from hyperplace.steps.symmetric.crowding import Crowd
from hyperplace.steps.symmetric.milp import Program, Solver
from hyperplace.values.arrays import Floats

GOOD, POOR = 0.5, 0.1  # of the promised gain: then the prices may move further, or should not
PATIENCE = 4  # poor steps before the pull grows
WIDEST = 1e4  # of the first reach
FARTHEST = 1e4  # of the total: no price is that high


class Prices:
    """The parts seen so far, the best prices so far, and how far the next ones may be from them."""

    def __init__(self, num_runs: int, num_parts: int, total: float) -> None:
        """Begin without prices; `total` is about the bound that can be hoped for."""
        self.center, self.best = np.zeros(num_runs), 0.0
        self.worth = np.ones(num_runs)  # of the prices in the bound: every run is there once
        self.amounts = np.zeros(0)  # how much of every part the last proposal would take
        self._num_parts, self._num_runs, self._total = num_parts, num_runs, total
        self._reach = total / (num_runs * num_parts)
        self._widest = WIDEST * self._reach
        self._parts: list[Floats] = []
        self._costs: list[float] = []
        self._crowds: list[Crowd] = []
        self._num_poor = 0

    @property
    def parts(self) -> Floats:
        """The shares of the parts seen so far, a row for each."""
        return np.array(self._parts)

    def add_part(self, share: Floats, cost: float) -> bool:
        """Take in a part; say whether it is a new one."""
        if any(np.allclose(share, part, rtol=0, atol=1e-6) for part in self._parts):
            return False
        self._parts.append(share)
        self._costs.append(cost)
        return True

    def add_crowds(self, crowds: list[Crowd]) -> None:
        self._crowds += crowds
        self.center = np.append(self.center, np.zeros(len(crowds)))
        self.worth = np.append(self.worth, [crowd.num_parts for crowd in crowds])

    def propose(self) -> tuple[Floats, float] | None:
        """Return the next prices to try and the bound they promise; None where the solver fails."""
        return self._solved(is_boxed=False) or self._solved(is_boxed=True)

    def _solved(self, *, is_boxed: bool) -> tuple[Floats, float] | None:
        """Return the best prices near the center: pulled to it, or, as the quadratic solver may fail, in a box."""
        program, pull = Program(), 0.0 if is_boxed else 1.0 / self._reach
        reach = self._reach if is_boxed else np.inf
        for number, (worth, center) in enumerate(zip(self.worth.tolist(), self.center.tolist(), strict=True)):
            lower = -np.inf if number < self._num_runs else 0.0  # a crowd may be on more parts than it needs
            low, high = max(lower, center - reach), center + reach
            program.column(-worth - pull * center, high, lower=low, curvature=pull)
        least = program.column(-float(self._num_parts), 0.0, lower=-np.inf)
        for share, cost in zip(self._parts, self._costs, strict=True):
            earned = np.append(share, [crowd.is_on(share) for crowd in self._crowds])
            used = np.flatnonzero(earned)
            program.row({**dict(zip(used.tolist(), earned[used].tolist(), strict=True)), least: 1.0}, high=cost)
        answer = Solver(program).solve()
        if not answer.is_complete or answer.values is None or answer.duals is None:
            return None
        if not (np.isfinite(answer.duals).all() and np.abs(answer.values).max() < FARTHEST * self._total):
            return None  # HiGHS calls that optimal too
        self.amounts = np.maximum(0.0, -answer.duals)
        return answer.values[:-1], float(self.worth @ answer.values[:-1]) + self._num_parts * answer.values[-1]

    def judge(self, tried: Floats, bound: float, promised: float) -> bool:
        """Take in what the tried prices proved; say whether it is more than before."""
        gain, hoped = bound - self.best, promised - self.best
        self._num_poor = 0 if gain >= POOR * hoped else self._num_poor + 1
        if gain > 0:
            self.center, self.best = tried, bound
        if gain > GOOD * hoped:
            self.widen(1.5)
        elif self._num_poor == PATIENCE:
            self._num_poor = 0
            self.widen(0.7)
        return gain > 0

    def widen(self, factor: float) -> bool:
        """Let the next prices be further away; say whether that is still a pull worth the name."""
        self._reach *= factor
        return self._reach <= self._widest
