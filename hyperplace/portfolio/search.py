"""The public function: one placement by the partitioner that the settings name."""

from hyperplace.errors import UsageError
from hyperplace.portfolio.board import OnProgress
from hyperplace.portfolio.coarse import coarse
from hyperplace.portfolio.fine import fine
from hyperplace.portfolio.hybrid import search_hybrid
from hyperplace.portfolio.names import NAMES, SYMMETRIC
from hyperplace.portfolio.problem import Problem
from hyperplace.values.graph import Graph
from hyperplace.values.hypergraph import Hypergraph
from hyperplace.values.partition import Partition
from hyperplace.values.plan import Settings
from hyperplace.values.profile import Profile


def search(
    graph: Graph,
    profile: Profile,
    settings: Settings,
    *,
    time_limit_s: float = 20.0,
    on_progress: OnProgress = lambda text: None,
) -> tuple[Hypergraph, Partition]:
    """Return the best balanced placement that the settings' partitioner finds, and the hypergraph it belongs to.

    `time_limit_s` is for the exact program and the bound; 0 means to the end. The local search for many parts always
    runs its course, so that the same seed gives the same result. Ctrl-C ends the search with the best so far.
    """
    if settings.partitioner not in NAMES:
        raise UsageError(f"partitioner {settings.partitioner!r} is unknown; choose one of {', '.join(NAMES)}")
    if settings.grain == "hybrid":
        return search_hybrid(graph, profile, settings, time_limit_s=time_limit_s, on_progress=on_progress)
    problem = Problem(graph, profile, settings)
    if settings.partitioner not in SYMMETRIC:
        hypergraph = problem.hypergraph()
        return hypergraph, problem.partition(hypergraph, settings.partitioner)
    best = (coarse if settings.grain == "coarse" else fine)(problem, time_limit_s, on_progress)
    return best.hypergraph, best.partition
