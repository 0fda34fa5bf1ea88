"""All grains of one placement: the coarse one first, since the others begin with it, then the others side by side.

The fine grain takes by far the longest and seldom wins: it gets a first look, and the rest only where that promises
something.
"""

from contextlib import suppress
from dataclasses import replace

from hyperplace.errors import BalanceError, PartitionerError
from hyperplace.search.best import OnProgress
from hyperplace.search.candidate import Candidate
from hyperplace.search.coarse import coarse
from hyperplace.search.fine import FineSearch
from hyperplace.search.hybrid import HybridSearch
from hyperplace.search.problem import Problem
from hyperplace.search.race import Stop, Task, race

COARSE_SHARE = 0.35  # of the time: the hybrid grain mostly wins, and needs more of it
PROMISING = 1.5  # of the hybrid volume; training moves about twice the forward volume

Grains = dict[str, Candidate | str]  # grain -> its best placement, or why there is none


def all_grains(problem: Problem, stop: Stop, on_progress: OnProgress) -> Grains:
    """Return what there is of every grain; the coarse search has its share of the time at most.

    Where no grain has anything the coarse one's error is raised. Ctrl-C ends the search with what there is.
    """
    first, found = stop.part(COARSE_SHARE, "coarse "), Grains()
    fault: BalanceError | PartitionerError | None = None
    try:
        best = coarse(problem.with_grain("coarse"), first, _named("coarse", on_progress))
        found["coarse"] = replace(best, seconds=first.seconds)
    except (BalanceError, PartitionerError) as refused:
        fault, found["coarse"] = refused, str(refused)  # rows may still be split
    if stop.is_interrupted:
        found |= dict.fromkeys(("fine", "hybrid"), "the search was interrupted before")
    else:
        found |= _other_grains(problem, found["coarse"], stop, on_progress)
    if fault and not any(isinstance(one, Candidate) for one in found.values()):
        raise fault
    return found


def _other_grains(problem: Problem, start: Candidate | str, stop: Stop, on_progress: OnProgress) -> Grains:
    found = Grains(fine="it begins with a coarse placement, and there is none")
    rows, kernels = stop.part(1.0, "hybrid "), stop.part(1.0, "fine ")
    known = start if isinstance(start, Candidate) else None
    hybrid = HybridSearch(problem.with_grain("hybrid"), known, rows, _named("hybrid", on_progress))
    fine = FineSearch(problem.with_grain("fine"), known, kernels, _named("fine", on_progress)) if known else None
    with suppress(KeyboardInterrupt):
        glance = [[Task("polish", fine.glance)]] if fine else []
        race([hybrid.lane(), *glance], stop, [rows, kernels][: 1 + len(glance)])
        if fine and not stop.is_over() and _is_promising(problem, fine, hybrid):
            race([[Task("polish", fine.run)]], stop, [kernels])
    hybrid.cancel()
    if fine:
        found["fine"] = _result(fine, kernels)
    found["hybrid"] = _result(hybrid, rows)
    return found


def _result(search: FineSearch | HybridSearch, stop: Stop) -> Candidate | str:
    try:
        return replace(search.result(), seconds=stop.seconds)
    except BalanceError as refused:
        return str(refused)


def _is_promising(problem: Problem, fine: FineSearch, hybrid: HybridSearch) -> bool:
    """Say whether a longer look at the fine grain may make it the best."""
    try:
        kernels, rows = fine.result(), hybrid.result()
        if problem.objective:
            return kernels.cost < PROMISING * rows.cost
        return 2 * kernels.volume_bytes < PROMISING * rows.volume_bytes
    except BalanceError:
        return True


def _named(grain: str, on_progress: OnProgress) -> OnProgress:
    return lambda text: on_progress(f"{grain}: {text}")
