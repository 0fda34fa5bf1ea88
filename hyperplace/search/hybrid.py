"""The search for a hybrid placement: a local search, and for few parts an exact program, over how each run is split.

Whatever they find is laid out on cells, cut just where owners change, and judged by its hypergraph, in bytes of
training. Data parallelism, the coarse baselines and the coarse placement are candidates too, so that none of them is
better.
"""

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from hyperplace.errors import BalanceError, PartitionerError
from hyperplace.search.best import OnProgress
from hyperplace.search.candidate import Candidate, bounded, judged, judged_partition
from hyperplace.search.compiled import is_compiled
from hyperplace.search.names import BASELINES
from hyperplace.search.problem import Problem
from hyperplace.search.race import Stop, Task, race
from hyperplace.steps.symmetric.arrange import counted
from hyperplace.steps.symmetric.hybrid_arrange import arrange_modes
from hyperplace.steps.symmetric.hybrid_starts import by_filters, data_parallel, pipeline
from hyperplace.values.modes import ModeShares, modes_volume, modes_work
from hyperplace.values.plan import PROVEN_GAP
from hyperplace.values.runs import kept_off
from hyperplace.values.sizes import size

if TYPE_CHECKING:
    from hyperplace.steps.symmetric.hybrid_exact import HybridProgram

STARTS = ("layerwise", "incremental", "kahypar")  # coarse placements to begin with
TINY_SHARES = 24  # up to here, in (run, part) pairs, HiGHS mostly proves the best before anything else is loaded
MOST_EXACT_PARTS, MOST_EXACT_SHARES = 4, 300  # beyond, in (run, part) pairs, HiGHS proves little in any short time


def hybrid(problem: Problem, coarse: Candidate | None, stop: Stop, on_progress: OnProgress) -> Candidate:
    """Return the best balanced placement; `coarse` is one of the same model, not to fall behind.

    The deadline or Ctrl-C ends the search with the best so far.
    """
    search = HybridSearch(problem, coarse, stop, on_progress)
    with suppress(KeyboardInterrupt):
        race([search.lane()], stop)
    search.cancel()
    return search.result()


class HybridSearch:
    """The searches of one hybrid placement, one after the other; the best result so far can be had at any time."""

    def __init__(self, problem: Problem, coarse: Candidate | None, stop: Stop, on_progress: OnProgress) -> None:
        self._problem, self._runs, self._settings = problem, problem.hybrid_runs, problem.settings
        self._stop, self._on_progress = stop, on_progress
        self._limits, self._safe_limits = problem.limits, problem.safe_limits
        self._found: list[Candidate] = []
        self._starts: list[ModeShares] = []
        self._bound = 0.0
        self._is_exact_done = False
        self._program: "HybridProgram | None" = None  # noqa: UP037 - loaded where used
        if coarse:
            self._offer_coarse(coarse)

    def lane(self) -> list[Task]:
        """Return what to do in turn: try the baselines, then improve on them."""
        improve = [Task("local search", self._improve)] if self._settings.k > 1 else []
        return [Task("baselines", self._begin), *improve]

    def _begin(self) -> None:
        """Enter the baselines as they are; the cheapest to find come first, so that there is always something."""
        stages, rows = self._offer_ends()
        coarse = self._baselines()
        for shares in coarse:
            self._offer(shares)
        self._starts = [stages, *coarse, rows]

    def _offer_ends(self) -> tuple[ModeShares, ModeShares]:
        """Enter, and return, a pipeline and data parallelism."""
        stages = self._kept(pipeline(self._runs, self._safe_limits))
        rows = self._kept(data_parallel(self._runs, self._limits))
        self._offer(stages)
        self._offer(rows)
        self._offer_data_parallel()
        return stages, rows

    def _kept(self, shares: ModeShares) -> ModeShares:
        unit_work = self._runs.work / self._runs.units(shares.by_rows)
        return replace(shares, counts=kept_off(self._runs.runs, shares.counts, unit_work, self._safe_limits))

    def cancel(self) -> None:
        """End the exact program, if it still runs."""
        if program := self._program:
            program.cancel()

    def result(self) -> Candidate:
        """Return the best balanced placement so far, with its bound."""
        if not self._balanced():
            self._offer_ends()  # there was no time for anything
        balanced = self._balanced()
        if not balanced:
            raise BalanceError(
                f"no hybrid placement within {self._problem.balance} was found at k={self._settings.k}; "
                "raise --imbalance or lower --k"
            )
        best = min(balanced, key=lambda candidate: candidate.cost)
        bound = min(int(self._bound), best.volume_bytes) if self._settings.k > 1 else 0
        is_cut_short = self._stop.is_cut_short or self._stop.is_told() or best.layout.is_cut_short
        return bounded(self._problem, best, bound, is_cut_short=is_cut_short)

    def _baselines(self) -> list[ModeShares]:
        """Enter the baselines as they are, and return those to begin with."""
        starts = []
        problem = self._problem.with_grain("coarse")
        blocks = problem.blocks
        for name in dict.fromkeys((*STARTS, *BASELINES)) if self._settings.k <= blocks.num_vertices else ():
            with suppress(BalanceError, PartitionerError):  # others may do better
                found = problem.partition(blocks, name, stop=self._stop.is_over)
                candidate = judged_partition(problem, blocks, found)
                self._offer_coarse(candidate)
                if name in STARTS:
                    starts.append(by_filters(counted(self._runs.runs, candidate.layout)))
        return starts

    def _offer_data_parallel(self) -> None:
        """Enter data parallelism as it is, on just as many blocks of rows as there are parts."""
        own = self._problem.with_blocks(1, self._settings.k)
        hypergraph = own.hypergraph()
        if self._runs.splits_rows.any() and self._settings.k <= hypergraph.num_vertices:
            found = own.partition(hypergraph, "dataparallel")
            self._found.append(judged_partition(own, hypergraph, found))

    def _improve(self) -> None:
        is_tiny = self._settings.k * len(self._runs.copy_bytes) <= TINY_SHARES
        if is_tiny and self._asks_for_exact():
            exact = self._exact(min(self._starts, key=self._volume), self._stop.seconds_left() / 4)
            if self._is_proven():
                return
            self._starts += [exact] if exact else []
        local = self._local(self._starts, self._settings.seed)
        if is_tiny and self._settings.partitioner == "auto":
            return  # what is not proven by now would take all the time there is, for a bound only
        if self._asks_for_exact() and not (self._is_exact_done or self._stop.is_over()):
            exact = self._exact(local, self._stop.seconds_left())
            if exact and not (local and self._volume(exact) >= self._volume(local)):
                self._local([exact], self._settings.seed + 1)

    def _balanced(self) -> list[Candidate]:
        return [candidate for candidate in list(self._found) if candidate.is_feasible]

    def _is_proven(self) -> bool:
        volumes = [one.volume_bytes for one in self._balanced()]
        return bool(volumes) and self._problem.objective is None and self._bound >= min(volumes) * (1 - PROVEN_GAP)

    def _volume(self, shares: ModeShares) -> float:
        return modes_volume(self._runs, shares)

    def _asks_for_exact(self) -> bool:
        size = self._settings.k * len(self._runs.copy_bytes)
        is_small = self._settings.k <= MOST_EXACT_PARTS and size <= MOST_EXACT_SHARES
        return self._settings.partitioner == "exact" or (self._settings.partitioner == "auto" and is_small)

    def _local(self, starts: list[ModeShares], seed: int) -> ModeShares | None:
        if not is_compiled("hybrid", self._stop):
            return None
        from hyperplace.steps.symmetric.hybrid_local import search_modes

        stop, limits = self._stop.is_over, self._safe_limits
        found = search_modes(self._runs, limits, starts, seed=seed, stop=stop, on_best=self._report)
        if found:
            self._offer(found)
        return found

    def _exact(self, start: ModeShares | None, time_limit_s: float) -> ModeShares | None:
        from hyperplace.steps.symmetric.hybrid_exact import HybridProgram

        self._program = HybridProgram(self._runs, self._limits, seed=self._settings.seed)
        if self._stop.is_over():  # while this was built: cancel() has been and gone
            return None
        found = self._program.run(start=start, time_limit_s=time_limit_s)
        self._bound = max(self._bound, found.bound_bytes)
        self._program = None
        self._is_exact_done = found.is_complete
        if not found.is_complete:
            self._stop.is_over()  # notes where the deadline was the reason
        if found.shares:
            self._offer(found.shares)
        return found.shares

    def _offer(self, shares: ModeShares) -> None:
        """Enter shares, laid out."""
        if np.all(modes_work(self._runs, shares) <= self._limits * (1 + 1e-6)):
            self._found.append(judged(self._problem, arrange_modes(self._runs, shares)))

    def _offer_coarse(self, coarse: Candidate) -> None:
        """Enter a coarse placement just as it is: all rows of a filter together."""
        if coarse.is_feasible:
            self._found.append(judged(self._problem, replace(coarse.layout, bound_bytes=None)))

    def _report(self, num_bytes: float) -> None:
        bound = f", bound {size(self._bound)}" if self._bound else ""
        self._on_progress(f"best {size(num_bytes)} in training{bound}")
