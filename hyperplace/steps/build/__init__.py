"""Build: Graph + Profile -> Hypergraph, Runs or HybridRuns."""

from hyperplace.steps.build.build import build
from hyperplace.steps.build.runs import build_hybrid_runs, build_runs

__all__ = ["build", "build_hybrid_runs", "build_runs"]
