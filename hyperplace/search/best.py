"""What the searches have found together: the best result, the best bound, all placements known, the progress line."""

import threading
from collections.abc import Callable, Collection
from dataclasses import replace

import numpy as np

from hyperplace.search.candidate import Candidate, bounded, in_words, judged
from hyperplace.search.names import ORDER
from hyperplace.search.problem import Problem
from hyperplace.steps.symmetric.arrange import arrange, counted
from hyperplace.values.runs import Runs, Shares, shares_volume
from hyperplace.values.sizes import size

NEAR = 5e-4  # of the volume: no search looks for less

OnProgress = Callable[[str], None]


class Best:
    """Results and bounds of searches that run in several threads."""

    def __init__(self, problem: Problem, on_progress: OnProgress) -> None:
        self._problem, self._on_progress = problem, on_progress
        self._lock = threading.Lock()
        self._best: Candidate | None = None
        self._bound = 0.0
        self._known: list[Shares] = []

    def offer(self, candidate: Candidate) -> None:
        """Enter a result, if it is balanced."""
        if not candidate.is_feasible:
            return
        shares = counted(self._problem.runs, candidate.layout)
        with self._lock:
            self._known.append(shares)
            if self._best is None or _rank(candidate) < _rank(self._best):
                self._best = candidate
        self._report()

    def offer_shares(self, shares: Shares) -> None:
        """Enter shares, laid out."""
        self.offer(judged(self._problem, arrange(self._problem.runs, shares, self._problem.settings.batch)))

    def raise_bound(self, bound_bytes: float) -> None:
        """Enter a lower bound on the volume of any balanced placement."""
        with self._lock:
            self._bound = max(self._bound, bound_bytes)
        self._report()

    def known(self) -> list[Shares]:
        """Return all balanced placements entered so far."""
        with self._lock:
            return list(self._known)

    def best_known(self, finders: Collection[str]) -> Shares | None:
        """Return the placement of least volume that one of the finders has entered so far."""
        theirs = [shares for shares in self.known() if shares.found_by in finders]
        return min(theirs, key=lambda one: (shares_volume(self._problem.runs, one), _place(one.found_by)), default=None)

    def is_proven(self, gap: float = NEAR) -> bool:
        """Say whether the best result is that near the best possible, by default as near as the exact program looks."""
        with self._lock:
            is_bytes = self._problem.objective is None
            return is_bytes and self._best is not None and self._bound >= self._best.volume_bytes * (1 - gap)

    def result(self, *, is_cut_short: bool) -> Candidate | None:
        """Return the best result with its bound."""
        with self._lock:
            best, bound = self._best, int(np.floor(self._bound))
        if best is None:
            return None
        # A bound within the solver's tolerance above a real placement is that placement's volume; one further above
        # is no bound at all.
        bound = min(bound, best.volume_bytes) if bound <= best.volume_bytes * (1 + 1e-4) else 0
        return bounded(self._problem, best, bound, is_cut_short=is_cut_short)

    def _report(self) -> None:
        best, bound = self._best, self._bound
        words = f"best {in_words(self._problem, best.cost)} ({best.layout.found_by})" if best else "nothing yet"
        self._on_progress(f"{words}, bound {size(bound)}" if bound else words)


def _rank(candidate: Candidate) -> tuple[float, int]:
    """Order results by cost, and equal ones by who found them, so that it does not matter who was first."""
    return candidate.cost, _place(candidate.layout.found_by)


def _place(finder: str) -> int:
    return ORDER.index(finder)


def credited(runs: Runs, found: Shares, start: Shares | None) -> Shares:
    """Return shares under the name of whoever found the start, where they are no better than it."""
    if start is None or shares_volume(runs, found) < shares_volume(runs, start) * (1 - 1e-9):
        return found
    return replace(found, found_by=start.found_by)
