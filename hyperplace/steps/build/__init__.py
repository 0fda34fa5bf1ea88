"""Build: Graph + Profile -> Hypergraph, or Runs."""

from hyperplace.steps.build.build import build
from hyperplace.steps.build.runs import build_runs

__all__ = ["build", "build_runs"]
