"""The runs of a graph with what splitting rows costs: what the hybrid searches see instead of a hypergraph."""

from dataclasses import replace

import numpy as np

from hyperplace.steps.build.runs import build_runs
from hyperplace.values.graph import Graph
from hyperplace.values.modes import HybridRuns
from hyperplace.values.profile import Profile


def build_hybrid_runs(graph: Graph, profile: Profile, *, fc: str = "neurons") -> HybridRuns:
    """Return the graph's runs with the costs of the hybrid grain."""
    runs = build_runs(graph, profile, fc=fc)
    layers = [graph[name] for name in runs.layers]
    times = np.array([1 + (layer.name in graph.learning) for layer in layers])
    copies = [2 * layer.filter_parameter_bytes + 4 * layer.filter_statistics_bytes for layer in layers]
    return HybridRuns(
        replace(runs, map_bytes=runs.map_bytes * times),
        profile.batch,
        copy_bytes=runs.sizes * np.array(copies),
        splits_rows=np.array([graph.splits_rows(layer) for layer in layers], np.int64),
    )
