"""The public functions: one placement by the partitioner that the settings name, and one of every grain."""

import math
from contextlib import suppress
from dataclasses import dataclass

from hyperplace.errors import BalanceError, PartitionerError, UsageError
from hyperplace.search.best import OnProgress
from hyperplace.search.candidate import Candidate, judged, judged_partition
from hyperplace.search.coarse import coarse as search_coarse
from hyperplace.search.fine import fine
from hyperplace.search.grains import COARSE_SHARE, Grains, all_grains
from hyperplace.search.hybrid import hybrid
from hyperplace.search.names import DATA_PARALLEL, NAMES, SYMMETRIC
from hyperplace.search.pinned import pinned
from hyperplace.search.problem import Objective, Problem
from hyperplace.search.race import Stop
from hyperplace.values.capacities import Capacities
from hyperplace.values.graph import Graph
from hyperplace.values.hypergraph import Hypergraph
from hyperplace.values.layout import Layout
from hyperplace.values.plan import Settings
from hyperplace.values.profile import Profile


@dataclass(frozen=True)
class Watch:
    """How long a search may take, who hears of it, and how Ctrl-C ends it.

    All searches together end at the time limit, 0 means none. `on_progress` gets a line whenever one finds something,
    `on_left_out` in the end the name of each that the limit has cut or prevented. Ctrl-C ends a search with the best so
    far, or, unless `keeps_best`, as any other work.
    """

    time_limit_s: float = 20.0
    keeps_best: bool = True
    on_progress: OnProgress = lambda text: None
    on_left_out: OnProgress = lambda what: None

    def __post_init__(self) -> None:
        if not (math.isfinite(self.time_limit_s) and self.time_limit_s >= 0):
            raise UsageError(f"time limit {self.time_limit_s} is no number of seconds; give 0 (none) or more")

    def end(self, stop: Stop) -> None:
        """Say what was left out, and, where that is wanted, that the user has interrupted."""
        if stop.is_interrupted and not self.keeps_best:
            raise KeyboardInterrupt
        for what in stop.left_out:
            self.on_left_out(what)


UNWATCHED = Watch()


def search(
    graph: Graph,
    profile: Profile,
    settings: Settings,
    watch: Watch = UNWATCHED,
    *,
    coarse: Layout | None = None,
    capacities: Capacities | None = None,
    objective: Objective | None = None,
) -> Layout:
    """Return the best balanced layout that the settings' partitioner finds.

    A general partitioner asked for by name runs its one course, whatever the time limit. A search that was not cut
    gives the same result for the same seed. `coarse` is a layout for the other grains to begin with; without one it is
    searched for first. `capacities` replace those of the imbalance, and `objective` the bytes by which the best is
    chosen.
    """
    check_name(settings.partitioner)
    stop = Stop(watch.time_limit_s)
    problem = Problem(graph, profile, settings, capacities, objective=objective)
    if settings.partitioner in DATA_PARALLEL:
        problem = problem.with_blocks(1, settings.k)
    given = judged(problem.with_grain("coarse"), coarse) if coarse else None

    def find(problem: Problem, stop: Stop) -> Grains:
        search_grain = {"coarse": _coarse, "fine": _fine, "hybrid": _hybrid}[settings.grain]
        search_grain = search_grain if settings.partitioner in SYMMETRIC else _asked
        start = None if problem.places else given  # which knows no pins
        return {settings.grain: search_grain(problem, stop, watch.on_progress, start)}

    best = pinned(problem, stop, find)[settings.grain]
    assert isinstance(best, Candidate), "a search of one grain raises where it finds nothing"
    watch.end(stop)
    return best.layout


def search_grains(
    graph: Graph,
    profile: Profile,
    settings: Settings,
    watch: Watch = UNWATCHED,
    *,
    capacities: Capacities | None = None,
    objective: Objective | None = None,
) -> Grains:
    """Return the best balanced layout of every grain, or why there is none, by one of the SYMMETRIC partitioners."""
    check_name(settings.partitioner)
    stop = Stop(watch.time_limit_s)
    problem = Problem(graph, profile, settings, capacities, objective=objective)
    grains = pinned(problem, stop, lambda problem, stop: all_grains(problem, stop, watch.on_progress))
    watch.end(stop)
    return grains


def hypergraph_of(graph: Graph, profile: Profile, layout: Layout, settings: Settings) -> Hypergraph:
    """Return the hypergraph of which the layout is a partition.

    Coarse ones have the blocks that were asked for, and more where owners change within one: their vectors fit other
    runs with these blocks. Of other grains a search that shares out single filters gets as few as its owners need.
    """
    problem = Problem(graph, profile, settings)
    if settings.partitioner in DATA_PARALLEL:
        problem = problem.with_blocks(1, settings.k)
    elif settings.partitioner in SYMMETRIC and settings.grain != "coarse":
        problem = problem.with_blocks(1)
    return problem.hypergraph(layout)


def check_name(partitioner: str) -> None:
    """Refuse a partitioner that does not exist."""
    if partitioner not in NAMES:
        raise UsageError(f"partitioner {partitioner!r} is unknown; choose one of {', '.join(NAMES)}")


def _asked(problem: Problem, stop: Stop, on_progress: OnProgress, given: Candidate | None) -> Candidate:
    """Ask a partitioner that sees only the hypergraph."""
    return judged_partition(problem, problem.blocks, problem.partition(problem.blocks, problem.settings.partitioner))


def _coarse(problem: Problem, stop: Stop, on_progress: OnProgress, given: Candidate | None) -> Candidate:
    return given or search_coarse(problem, stop, on_progress)


def _fine(problem: Problem, stop: Stop, on_progress: OnProgress, given: Candidate | None) -> Candidate:
    """Search, with half of the time for the coarse placement where none is given."""
    start = given or search_coarse(problem.with_grain("coarse"), stop.part(0.5, "coarse "), on_progress)
    return fine(problem, start, stop.part(1.0, "fine "), on_progress)


def _hybrid(problem: Problem, stop: Stop, on_progress: OnProgress, given: Candidate | None) -> Candidate:
    """Search, with less than half of the time for the coarse placement where none is given."""
    start = given
    with suppress(BalanceError, PartitionerError):  # rows may still be split
        start = given or search_coarse(problem.with_grain("coarse"), stop.part(COARSE_SHARE, "coarse "), on_progress)
    return hybrid(problem, start, stop.part(1.0, "hybrid "), on_progress)
