"""A result of a search: a layout, and what it costs, counted by the nets of its hypergraph."""

from dataclasses import dataclass

from hyperplace.portfolio.problem import Problem
from hyperplace.values.hypergraph import Hypergraph
from hyperplace.values.layout import Layout, layout_of, partition_of
from hyperplace.values.partition import Partition, volume_bytes, work_per_part


@dataclass(frozen=True)
class Candidate:
    """A layout, what it costs, and how long its search took."""

    layout: Layout
    volume_bytes: int
    is_feasible: bool
    seconds: float = 0.0


def judged(problem: Problem, layout: Layout) -> Candidate:
    """Return a layout with its cost, on as few blocks as it needs; where kernels have no part they are the owner's."""
    hypergraph = problem.with_blocks(1).hypergraph(layout)
    return judged_partition(problem, hypergraph, partition_of(layout, hypergraph))


def judged_partition(problem: Problem, hypergraph: Hypergraph, found: Partition) -> Candidate:
    """Return a partition of blocks as a layout with its cost."""
    layout = layout_of(hypergraph, found, problem.settings.batch)
    feasible = problem.capacities.admit(work_per_part(hypergraph, found))
    return Candidate(layout, volume_bytes(hypergraph, found), feasible)
