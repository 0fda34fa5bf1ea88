"""The searches of one coarse placement, and which of them run on which core."""

import threading
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from hyperplace.errors import BalanceError
from hyperplace.search.best import Best, OnProgress, credited
from hyperplace.search.candidate import Candidate, judged_partition
from hyperplace.search.compiled import is_compiled
from hyperplace.search.limits import nothing_found, refuse_the_impossible
from hyperplace.search.names import BASELINES
from hyperplace.search.problem import Problem
from hyperplace.search.race import Stop, Task, race
from hyperplace.steps.partition import balanced
from hyperplace.values.partition import Partition
from hyperplace.values.plan import PROVEN_GAP
from hyperplace.values.runs import Shares

if TYPE_CHECKING:
    from hyperplace.steps.symmetric.exact import ExactSearch

FEW_PARTS = 4  # up to here the exact program usually ends
MOST_EXACT_COLUMNS = 3000  # beyond this many (run, part) pairs HiGHS does not get anywhere in the time there is
MOST_COLUMNS_OF_MANY_PARTS = 300  # the same for more than a few parts: beyond, the others use that time better
MORE_SEEDS = range(1, 5)  # to ask with once more, while there is time


def coarse(problem: Problem, stop: Stop, on_progress: OnProgress) -> Candidate:
    """Search until all have ended, one has proven its result, the time is up, or the user interrupts.

    Return the best; where there was no time for anything, the best of the baselines.
    """
    refuse_the_impossible(problem)
    if problem.settings.k == 1:
        return _everything_on_one_part(problem)
    found = Best(problem, on_progress)
    searches = _Searches(problem, found, stop)
    interrupted: KeyboardInterrupt | None = None
    try:
        race(searches.lanes(), stop)
    except KeyboardInterrupt as fault:
        interrupted = fault
    finally:
        searches.cancel()
    if interrupted is None and found.result(is_cut_short=True) is None:
        searches.anything()
    best = found.result(is_cut_short=stop.is_cut_short)
    if best is None:
        raise interrupted or nothing_found(problem)
    return best


def _everything_on_one_part(problem: Problem) -> Candidate:
    hypergraph = problem.hypergraph()
    alone = Partition(np.zeros(hypergraph.num_vertices, np.int64), 1, "single", bound_bytes=0)
    return judged_partition(problem, hypergraph, alone)


class _Searches:
    """Every search as a task without arguments that enters among the results what it finds."""

    def __init__(self, problem: Problem, best: Best, stop: Stop) -> None:
        self._problem, self._best, self._stop = problem, best, stop
        self._has_kahypar = threading.Event()
        self._exact_search: "ExactSearch | None" = None  # noqa: UP037 - loaded where used

    def lanes(self) -> Sequence[Sequence[Task]]:
        """Return what to do on each core; for few parts the exact program usually needs no help."""
        baselines, kahypar = Task("baselines", self.baselines), Task("kahypar", self._kahypar)
        local, exact = Task("local search", self._local), Task("exact program", self._exact)
        if self._problem.settings.partitioner == "local":
            return [[local]]
        if self._problem.settings.partitioner == "exact":
            return [[baselines, kahypar, exact]]
        mtkahypar, vcycle = (Task(name, partial(self._try, name)) for name in ("mtkahypar", "vcycle"))
        price, seeds = Task("bound by prices", self._price), self._again("kahypar", "mtkahypar")
        if self._problem.settings.k <= FEW_PARTS:
            pause = Task("local search", self._pause)
            return [[baselines, kahypar, exact], [mtkahypar, vcycle, pause, local, *seeds, price]]
        return [
            [local, *seeds, exact, *self._again("local")],
            [baselines, kahypar, vcycle, mtkahypar, price],
        ]

    def cancel(self) -> None:
        """End the exact program, if it still runs."""
        if search := self._exact_search:
            search.cancel()

    def baselines(self) -> None:
        """Enter the baselines."""
        for name in BASELINES:
            self._try(name)

    def anything(self) -> None:
        """Enter what takes next to no time: the baselines, and, where none is balanced, one that is made so."""
        self.baselines()
        blocks, settings = self._problem.blocks, self._problem.settings
        if not self._best.known() and settings.k <= blocks.num_vertices:
            with suppress(BalanceError):  # if nobody can be found, the result says so
                barred = self._problem.barred(blocks)
                found = balanced(blocks, settings.imbalance, self._problem.capacities, barred)
                self._best.offer(judged_partition(self._problem, blocks, found))

    def _kahypar(self) -> None:
        try:
            self._try("kahypar")
        finally:
            self._has_kahypar.set()

    def _again(self, *names: str) -> list[Task]:
        """Return what asks those again whom another seed leads to another placement."""
        return [
            Task(f"{name} with further seeds", partial(self._once_more, name, seed))
            for seed in MORE_SEEDS
            for name in names
        ]

    def _once_more(self, name: str, more_seed: int) -> None:
        if self._stop.is_over() or self._best.is_proven():
            return
        if name == "local":
            self._local(more_seed)
        else:
            self._try(name, more_seed)

    def _try(self, name: str, more_seed: int = 0) -> None:
        hypergraph = self._problem.blocks
        if self._problem.settings.k <= hypergraph.num_vertices:
            found = self._problem.partition(hypergraph, name, more_seed=more_seed, stop=self._stop.is_over)
            self._best.offer(judged_partition(self._problem, hypergraph, found))

    def _pause(self) -> None:
        """Leave the exact program the time it mostly needs before the local search is compiled and started."""
        self._stop.wait(2.0)

    def _local(self, more_seed: int = 0) -> None:
        if not is_compiled("local", self._stop):
            return
        from hyperplace.steps.symmetric.local import search

        seed = self._problem.settings.seed + more_seed
        found = search(self._problem.runs, self._problem.safe_limits, seed=seed, stop=self._stop.is_over)
        if found is not None:
            self._best.offer_shares(found)

    def _exact(self) -> None:
        from hyperplace.steps.symmetric.exact import ExactSearch

        runs, settings = self._problem.runs, self._problem.settings
        most_columns = MOST_EXACT_COLUMNS if settings.k <= FEW_PARTS else MOST_COLUMNS_OF_MANY_PARTS
        is_too_large = settings.k * len(runs.layers) > most_columns and settings.partitioner == "auto"
        if is_too_large or self._stop.is_over() or self._best.is_proven():
            return
        start = self._start()
        self._exact_search = ExactSearch(runs, self._problem.limits, seed=settings.seed)
        if self._stop.is_over():  # while this waited or built: cancel() has been and gone
            return
        found = self._exact_search.run(start=start, time_limit_s=self._stop.seconds_left())
        self._exact_search = None
        self._best.raise_bound(found.bound_bytes)
        if found.shares is not None:
            self._best.offer_shares(credited(runs, found.shares, start))
        if not found.is_complete:
            self._stop.leave_out("exact program")
        elif self._best.is_proven(PROVEN_GAP):
            self._stop.tell(cut_short=False)

    def _start(self) -> Shares | None:
        """Return the best of those that have always ended by now, so that it does not matter who was faster."""
        while not (self._has_kahypar.wait(0.05) or self._stop.is_over()):
            pass
        is_search = self._problem.settings.k > FEW_PARTS  # else the local search runs beside the exact program
        return self._best.best_known((*BASELINES, "kahypar", "local") if is_search else (*BASELINES, "kahypar"))

    def _price(self) -> None:
        from hyperplace.steps.symmetric.bound import pricing_bound

        if known := self._best.known():
            pricing_bound(
                self._problem.runs,
                self._problem.limits,
                known,
                stop=lambda: self._best.is_proven() or self._stop.is_over(),
                seconds_left=self._stop.seconds_left,
                on_bound=self._best.raise_bound,
            )
        # With many parts the local search goes on, so that the result does not depend on who is faster.
        if self._best.is_proven() and self._problem.settings.k <= FEW_PARTS:
            self._stop.tell(cut_short=False)
