"""Build: Graph + Profile -> Hypergraph."""

from hyperplace.steps.build.build import build

__all__ = ["build"]
