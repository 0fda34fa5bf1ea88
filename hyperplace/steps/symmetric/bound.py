"""A lower bound from pricing single parts (Dantzig-Wolfe).

Volume is a sum over parts of what each receives, and every part obeys the same rules. So choose k parts out of all
possible ones such that together they hold everything. Without the "together", at a price per run instead, the k parts
are k times the cheapest one (pricing.py); any prices give a bound, good ones a good one (prices.py). Sets of runs that
need more parts than a fractional choice gives them get a price too (crowding.py).
"""

import time
from collections.abc import Callable, Sequence

import numpy as np

from hyperplace.steps.symmetric.crowding import Crowd, crowded
from hyperplace.steps.symmetric.prices import Prices
from hyperplace.steps.symmetric.pricing import Pricing
from hyperplace.values.arrays import Floats
from hyperplace.values.runs import Runs, Shares, shares_volume

SLACK = 1e-6  # of the limit, so that the bound stays a bound whatever rounding did
UNITS = 100.0  # the known volume in the programs, so that HiGHS's tolerances are small against it
NEAR = 0.02  # promised gain below which crowds are looked for: before, the parts are still too wild to tell
NEW_CROWDS = 10  # at a time: every one makes pricing slower
FEW_KNOWN = 3  # placements whose parts are taken in: with more, proposing prices becomes slow


def pricing_bound(
    runs: Runs,
    limits: Floats,
    known: Sequence[Shares],
    *,
    stop: Callable[[], bool] = lambda: False,
    seconds_left: Callable[[], float] = lambda: np.inf,
    on_bound: Callable[[float], None] = lambda bound: None,
    max_rounds: int = 1000,
    target_gap: float = 5e-4,
) -> float:
    """Return a lower bound in bytes on the volume of any balanced shares; `known` are good placements to start from.

    Every part is priced as if it had the largest limit: parts that are alike need one price, and a part that may hold
    less costs no less. So the bound holds for any limits, and is best where they are equal.
    """
    best_first = sorted(known, key=lambda shares: shares_volume(runs, shares))[:FEW_KNOWN]
    unit_bytes = shares_volume(runs, best_first[0]) / UNITS
    if not unit_bytes or stop():
        return 0.0
    search = _Search(runs, len(limits), float(limits.max()) * (1 + SLACK), unit_bytes)
    goes_on, reported = search.begin(best_first, seconds_left()), 0.0
    for _ in range(max_rounds):
        if search.best > reported:
            reported = search.best
            on_bound(reported * unit_bytes)
        if not goes_on or stop():
            break
        goes_on = search.step(target_gap, seconds_left())
    return reported * unit_bytes


class _Search:
    """Prices, and the cheapest parts at them."""

    def __init__(self, runs: Runs, num_parts: int, limit: float, unit_bytes: float) -> None:
        self._runs, self._num_parts, self._limit = runs, num_parts, limit
        self._pricing = Pricing(runs, limit, unit_bytes)
        self._prices = Prices(len(runs.layers), num_parts, UNITS)
        self._crowds: set[Crowd] = set()
        self._is_changed = True  # since crowds were looked for

    @property
    def best(self) -> float:
        return self._prices.best

    def begin(self, known: Sequence[Shares], seconds: float) -> bool:
        """Take in the parts of known placements; begin with prices at which those of the first earn their costs."""
        parts = [part for shares in known for part in (shares.filters / self._runs.sizes[:, None]).T]
        for part in parts:
            self._prices.add_part(part, self._pricing.cost_of(part))
        return self._try(self._fair(known[0].filters / self._runs.sizes[:, None]), UNITS, seconds)

    def _fair(self, shares: Floats) -> Floats:
        """Return prices that share out the cost of every part over its runs by their work."""
        work = self._runs.sizes * self._runs.work
        load = work @ shares
        cost = np.array([self._pricing.cost_of(part) for part in shares.T])
        prices: Floats = work * (shares @ np.divide(cost, load, out=np.zeros(len(load)), where=load > 0))
        return prices

    def step(self, target_gap: float, seconds: float) -> bool:
        """Raise the bound, or what will raise it; say whether that can go on."""
        proposed = self._prices.propose()
        if proposed is None:
            return False
        tried, promised = proposed
        gap = (promised - self.best) / max(promised, 1e-9)
        if gap <= NEAR and self._is_changed and self._add_crowds():
            return True
        if gap <= target_gap:
            return self._prices.widen(10.0)
        return self._try(tried, promised, seconds)

    def _add_crowds(self) -> bool:
        self._is_changed = False
        found = crowded(self._runs, self._limit, self._prices.parts, self._prices.amounts)
        new = [crowd for crowd in found if crowd not in self._crowds][:NEW_CROWDS]
        self._crowds.update(new)
        self._prices.add_crowds(new)
        self._pricing.add(new)
        return bool(new)

    def _try(self, prices: Floats, promised: float, seconds: float) -> bool:
        """Price a part, roughly first and again if that taught nothing; say whether it taught anything."""
        deadline = time.monotonic() + seconds
        for share in (0.1, 1e-3):
            close_enough = max(1e-6 * UNITS, share * (promised - self.best)) / self._num_parts
            left = deadline - time.monotonic()
            part = self._pricing.cheapest(prices, close_enough=close_enough, time_limit_s=max(left, 0.0))
            if part is None:
                return False
            bound = float(self._prices.worth @ prices) + self._num_parts * part.least
            is_higher = self._prices.judge(prices, bound, promised)
            is_new = self._prices.add_part(part.share, self._pricing.cost_of(part.share))
            if is_higher or is_new:
                self._is_changed = True
                return True
        return False
