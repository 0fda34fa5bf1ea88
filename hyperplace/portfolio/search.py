"""The public functions: one placement by the partitioner that the settings name, and one of every grain."""

from contextlib import suppress

from hyperplace.errors import BalanceError, PartitionerError, UsageError
from hyperplace.portfolio.board import OnProgress
from hyperplace.portfolio.candidate import Candidate, Found, judged
from hyperplace.portfolio.coarse import coarse as search_coarse
from hyperplace.portfolio.fine import fine
from hyperplace.portfolio.grains import all_grains
from hyperplace.portfolio.hybrid import hybrid
from hyperplace.portfolio.lanes import Stop
from hyperplace.portfolio.names import NAMES, SYMMETRIC
from hyperplace.portfolio.problem import Problem
from hyperplace.values.graph import Graph
from hyperplace.values.plan import Settings
from hyperplace.values.profile import Profile


def search(
    graph: Graph,
    profile: Profile,
    settings: Settings,
    *,
    time_limit_s: float = 20.0,
    on_progress: OnProgress = lambda text: None,
    coarse: Found | None = None,
) -> Found:
    """Return the best balanced placement that the settings' partitioner finds, and the hypergraph it belongs to.

    `time_limit_s` is for exact programs, further seeds and bounds; 0 means to the end. The first local search always
    runs its course, so that the same seed gives the same result. Ctrl-C ends the search with the best so far. `coarse`
    is a coarse placement for the other grains to begin with; without one it is searched for first.
    """
    check_name(settings.partitioner)
    problem = Problem(graph, profile, settings)
    if settings.partitioner == "dataparallel":
        problem = problem.with_blocks(1, settings.k)  # it needs just as many blocks of rows
    if settings.partitioner not in SYMMETRIC:
        hypergraph = problem.hypergraph()
        return hypergraph, problem.partition(hypergraph, settings.partitioner)
    given = judged(*coarse, settings.imbalance) if coarse else None
    search_grain = {"coarse": _coarse, "fine": _fine, "hybrid": _hybrid}[settings.grain]
    return search_grain(problem, time_limit_s, on_progress, given).found


def search_grains(
    graph: Graph,
    profile: Profile,
    settings: Settings,
    *,
    time_limit_s: float = 20.0,
    on_progress: OnProgress = lambda text: None,
) -> dict[str, Found | str]:
    """Return the best balanced placement of every grain, or why there is none, by one of the SYMMETRIC partitioners."""
    check_name(settings.partitioner)
    grains = all_grains(Problem(graph, profile, settings), time_limit_s, on_progress)
    return {grain: one.found if isinstance(one, Candidate) else one for grain, one in grains.items()}


def check_name(partitioner: str) -> None:
    """Refuse a partitioner that does not exist."""
    if partitioner not in NAMES:
        raise UsageError(f"partitioner {partitioner!r} is unknown; choose one of {', '.join(NAMES)}")


def _coarse(problem: Problem, time_limit_s: float, on_progress: OnProgress, given: Candidate | None) -> Candidate:
    return given or search_coarse(problem, Stop(time_limit_s), on_progress)


def _fine(problem: Problem, time_limit_s: float, on_progress: OnProgress, given: Candidate | None) -> Candidate:
    stop = Stop(time_limit_s)
    start = given or search_coarse(problem.with_grain("coarse"), stop, on_progress)
    return fine(problem, start, stop.after(), on_progress)


def _hybrid(problem: Problem, time_limit_s: float, on_progress: OnProgress, given: Candidate | None) -> Candidate:
    """Search, with half of the time for the coarse placement where none is given."""
    stop, start = Stop(time_limit_s / 2), given
    with suppress(BalanceError, PartitionerError):  # rows may still be split
        start = given or search_coarse(problem.with_grain("coarse"), stop, on_progress)
    return hybrid(problem, start, time_limit_s if given else time_limit_s / 2, stop.after(), on_progress)
