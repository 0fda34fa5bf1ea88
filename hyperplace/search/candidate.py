"""A result of a search: a layout, and what it costs, counted by the nets of its hypergraph."""

from dataclasses import dataclass, replace

import numpy as np

from hyperplace.search.problem import Problem
from hyperplace.values.hypergraph import Hypergraph
from hyperplace.values.layout import Layout, layout_of, partition_of
from hyperplace.values.partition import Partition, volume_bytes, work_per_part
from hyperplace.values.plan import PROVEN_GAP
from hyperplace.values.sizes import size


@dataclass(frozen=True)
class Candidate:
    """A layout, the bytes of its nets, what the objective makes of it, and how long its search took."""

    layout: Layout
    volume_bytes: int
    cost: float
    is_feasible: bool
    seconds: float = 0.0


def judged(problem: Problem, layout: Layout) -> Candidate:
    """Return a layout with its cost, on as few blocks as it needs; where kernels have no part they are the owner's."""
    hypergraph = problem.with_blocks(1).hypergraph(layout)
    return judged_partition(problem, hypergraph, partition_of(layout, hypergraph))


def judged_partition(problem: Problem, hypergraph: Hypergraph, found: Partition) -> Candidate:
    """Return a partition of blocks as a layout with its cost."""
    layout = layout_of(hypergraph, found, problem.settings.batch)
    volume, feasible = volume_bytes(hypergraph, found), problem.capacities.admit(work_per_part(hypergraph, found))
    closed = problem.barred(hypergraph)
    feasible &= closed is None or not closed[np.arange(len(found.part_of)), found.part_of].any()
    cost = problem.objective.judge(layout) if problem.objective else volume
    return Candidate(layout, volume, cost, feasible)


def bounded(problem: Problem, best: Candidate, bound_bytes: int, *, is_cut_short: bool) -> Candidate:
    """Return the best candidate with its bound, where there is one, and whether a longer search may find a better one.

    Bounds are proven on bytes, so they say nothing about another objective.
    """
    if problem.objective:
        return replace(best, layout=replace(best.layout, bound_bytes=None, is_cut_short=is_cut_short))
    is_proven = bound_bytes >= best.volume_bytes * (1 - PROVEN_GAP)
    bound = bound_bytes if bound_bytes > 0 or best.volume_bytes == 0 else None
    return replace(best, layout=replace(best.layout, bound_bytes=bound, is_cut_short=is_cut_short and not is_proven))


def in_words(problem: Problem, cost: float) -> str:
    """Return what the objective makes of a layout, for the progress line."""
    return f"{cost:.4g} {problem.objective.unit}" if problem.objective else size(cost)
