"""The fine grain: the coarse placement, which is a fine one too, against polished grids of a few blocks."""

from contextlib import suppress
from dataclasses import replace
from typing import Any

from hyperplace.errors import BalanceError, PartitionerError
from hyperplace.search.best import OnProgress
from hyperplace.search.candidate import Candidate, in_words, judged, judged_partition
from hyperplace.search.compiled import is_compiled
from hyperplace.search.problem import Problem
from hyperplace.search.race import Stop, Task, race

FEW_MOVES = 1_000_000  # at each heat, for a first look that takes seconds
FINE_BLOCKS = (8, 12, 24)  # a few blocks per layer: a fine grid of more is slower and no better


def fine(problem: Problem, coarse: Candidate, stop: Stop, on_progress: OnProgress) -> Candidate:
    """Return the best of them; an interrupt or the deadline ends the search with the best so far."""
    search = FineSearch(problem, coarse, stop, on_progress)
    with suppress(KeyboardInterrupt):
        race([[Task("polish", search.run)]], stop)
    return search.result()


class FineSearch:
    """One grid after the other; the best result so far can be had at any time."""

    def __init__(self, problem: Problem, coarse: Candidate, stop: Stop, on_progress: OnProgress) -> None:
        self._problem, self._stop, self._on_progress = problem, stop, on_progress
        self._found, self._is_cut_short = [judged(problem, coarse.layout)], coarse.layout.is_cut_short

    def glance(self) -> None:
        """Polish the grids a little."""
        self.run(FEW_MOVES)

    def run(self, most_moves: int | None = None) -> None:
        """Polish the grids until done or told to stop."""
        most = self._problem.settings.blocks
        for blocks in FINE_BLOCKS if self._problem.settings.k > 1 else ():
            if self._stop.is_over() or not is_compiled("polish", self._stop):
                return
            with suppress(BalanceError, PartitionerError):  # too coarse a grid, or the partitioner fails on it
                grid = self._problem.with_blocks(min(blocks, most or blocks))
                self._found.append(_polished(grid, most_moves, self._stop))
                self._on_progress(f"best {in_words(self._problem, self._best().cost)}")

    def result(self) -> Candidate:
        best, is_cut_short = self._best(), self._is_cut_short or self._stop.is_cut_short or self._stop.is_told()
        return replace(best, layout=replace(best.layout, is_cut_short=is_cut_short, bound_bytes=None))

    def _best(self) -> Candidate:
        balanced = [one for one in list(self._found) if one.is_feasible]
        if not balanced:  # measured kernels do not add up to their filters, so the coarse start may be too heavy
            settings = self._problem.settings
            raise BalanceError(
                f"no fine placement within {self._problem.balance} was found at k={settings.k}; "
                "raise --imbalance or lower --k"
            )
        return min(balanced, key=lambda one: one.cost)


def _polished(problem: Problem, most_moves: int | None, stop: Stop) -> Candidate:
    from hyperplace.steps.partition.polish import MOST_MOVES, polish

    grid = problem.hypergraph()
    if problem.settings.k > grid.num_vertices:
        raise BalanceError(f"a grid of {grid.num_vertices} vertices is too coarse for k={problem.settings.k}")
    start = problem.partition(grid, "kahypar", stop=stop.is_over)
    options: dict[str, Any] = {"most_moves": most_moves or MOST_MOVES}
    options |= {"seed": problem.settings.seed, "barred": problem.barred(grid)}
    polished = polish(grid, start, problem.capacities, stop=stop.is_over, **options)
    return judged_partition(problem, grid, polished)
