"""A lower bound from pricing single parts (Dantzig-Wolfe).

Volume is a sum over parts of what each receives, and every part obeys the same rules. So choose k parts out of all
possible ones such that together they hold everything: a linear program with one column per possible part. Its duals
price the runs; for any prices, their sum + k * (the cheapest part at these prices) is a bound, and finding that part is
a small integer program without any symmetry between parts. Parts are added, and the prices improved, until the bound
stops rising.
"""

from collections.abc import Callable, Sequence

import numpy as np

from hyperplace.steps.share.milp import Program, Solver
from hyperplace.steps.share.part import MIB, add_part, received_shares
from hyperplace.values.arrays import Floats
from hyperplace.values.runs import Runs, Shares

SMOOTHING = 0.8  # of the best prices so far in each new try; without it the prices swing wildly
SLACK = 1e-6  # of the limit, so that the bound stays a bound whatever rounding did


def pricing_bound(
    runs: Runs,
    num_parts: int,
    limit: float,
    known: Sequence[Shares],
    *,
    stop: Callable[[], bool] = lambda: False,
    on_bound: Callable[[float], None] = lambda bound: None,
    max_rounds: int = 1000,
    target_gap: float = 5e-4,
) -> float:
    """Return a lower bound in bytes on the volume of any balanced shares; `known` are good placements to start from."""
    pricing = _Pricing(runs, limit * (1 + SLACK))
    master = _Master(len(runs.layers), num_parts)
    for shares in known:
        for part in range(num_parts):
            share = shares.filters[:, part] / runs.sizes
            master.add(share, pricing.cost_of(share))
    best, best_prices = 0.0, np.zeros(len(runs.layers))
    for _ in range(max_rounds):
        prices, objective = master.solve()
        if stop() or objective - best <= target_gap * objective:
            break
        is_new = False
        for tried in (SMOOTHING * best_prices + (1 - SMOOTHING) * prices, prices):
            share, value = pricing.cheapest(tried)
            if (bound := float(tried.sum()) + num_parts * value) > best:
                best, best_prices = bound, tried
                on_bound(best * MIB)
            is_new = master.add(share, pricing.cost_of(share))
            if is_new:
                break
        if not is_new:  # not even the master's own prices find a part it lacks: its objective is the bound
            break
    return best * MIB


class _Pricing:
    """The cheapest single part at given prices."""

    def __init__(self, runs: Runs, limit: float) -> None:
        self._runs = runs
        program = Program()
        self._part = add_part(program, runs, limit)
        self._cost = np.array(program.cost)
        self._solver = Solver(program, gap=1e-5)

    def cheapest(self, prices: Floats) -> tuple[Floats, float]:
        """Return its shares, and a lower bound on its cost minus what it earns; an empty part earns nothing."""
        cost = self._cost.copy()
        cost[self._part.share] -= prices
        self._solver.change_costs(cost)
        answer = self._solver.solve()
        assert answer.values is not None, "an empty part is always possible"
        share = np.clip(answer.values[self._part.share], 0.0, 1.0)
        return np.where(share < 1e-7, 0.0, share), min(answer.bound, 0.0)

    def cost_of(self, share: Floats) -> float:
        """Return what a part with these shares receives, in MiB."""
        whole_bytes = self._runs.sizes * self._runs.map_bytes
        return float(received_shares(self._runs, share) @ whole_bytes) / MIB


class _Master:
    """The linear program that covers every run with k of the parts known so far."""

    def __init__(self, num_runs: int, num_parts: int) -> None:
        program = Program()
        for _ in range(num_runs):
            program.row({}, low=1.0, high=1.0)
        program.row({}, high=float(num_parts))
        self._num_runs = num_runs
        self._known: set[bytes] = set()
        self._solver = Solver(program)

    def add(self, share: Floats, cost: float) -> bool:
        """Add a part; say whether it is new."""
        key = np.round(share, 6).tobytes()
        if key in self._known:
            return False
        self._known.add(key)
        self._solver.add_column(cost, np.append(share, 1.0))
        return True

    def solve(self) -> tuple[Floats, float]:
        """Return the price of every run and the objective."""
        answer = self._solver.solve()
        assert answer.duals is not None, "the start covers every run, so there is a solution"
        return answer.duals[: self._num_runs], answer.objective
