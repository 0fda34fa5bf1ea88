"""The runs of a graph, and what splitting their rows costs: what the symmetric searches see instead of a hypergraph."""

from bisect import bisect_left, bisect_right
from dataclasses import replace
from itertools import pairwise

import numpy as np

from hyperplace.steps.build.blocks import is_solid
from hyperplace.values.graph import Graph, Layer, Operand, Reads, Source
from hyperplace.values.modes import HybridRuns
from hyperplace.values.profile import Profile
from hyperplace.values.runs import Links, Runs
from hyperplace.values.ties import interchangeable_edges


def build_runs(graph: Graph, profile: Profile, *, fc: str = "neurons") -> Runs:
    """Return the graph's runs with the costs of the coarse grain."""
    edges = {name: sorted(cuts) for name, cuts in interchangeable_edges(graph).items()}
    # Of a layer that is never split, a reader of a slice needs at least the smallest slice: less than the truth, so
    # that what is proven on runs holds for the hypergraph.
    least = {name: min(stop - start for start, stop in _pairs(cuts)) for name, cuts in edges.items()}
    for layer in graph.layers:
        if is_solid(layer, fc):
            edges[layer.name] = [0, layer.num_filters]
    spans = [(layer, start, stop) for layer in graph.layers for start, stop in _pairs(edges[layer.name])]
    number = {(layer.name, start): index for index, (layer, start, _) in enumerate(spans)}
    solid = [is_solid(layer, fc) for layer, _, _ in spans]
    readers: list[set[int]] = [set() for _ in spans]
    tied: list[set[int]] = [set() for _ in spans]
    for layer in graph.layers:
        for operand in layer.operands:
            for run, reader in _readings(layer, operand, edges, number):
                channelwise = operand.reads is Reads.SAME and not solid[reader]
                (tied if channelwise else readers)[run].add(reader)
    return Runs(
        layers=tuple(layer.name for layer, _, _ in spans),
        start=np.array([start for _, start, _ in spans]),
        sizes=np.array([stop - start for _, start, stop in spans]),
        work=np.array([profile[layer.name].filter_work for layer, _, _ in spans]),
        map_bytes=np.array(
            [
                (layer.map_bytes * profile.batch + layer.fixed_bytes)
                * (least[layer.name] if is_solid(layer, fc) else stop - start)
                // (stop - start)
                for layer, start, stop in spans
            ]
        ),
        is_solid=np.array(solid, np.int64),
        readers=Links.of(readers),
        tied=Links.of(tied),
    )


def _pairs(edges: list[int]) -> list[tuple[int, int]]:
    return list(pairwise(edges))


def _readings(
    layer: Layer, operand: Operand, edges: dict[str, list[int]], number: dict[tuple[str, int], int]
) -> list[tuple[int, int]]:
    """Return (run, the run of `layer` that reads it) for every pair the operand joins."""
    found = []
    spans = _pairs(edges[layer.name])
    readers = [number[layer.name, start] for start, _ in spans]
    # Whatever the rule, later filters read the same channels or later ones, so both lists are sorted.
    begins, ends = zip(*(layer.channels_read(operand, (span,))[0] for span in spans), strict=True)
    for first, source in operand.located():
        for start, stop in _pairs(edges[source.layer]):
            low, high = _channels(source, first, start, stop)
            if low < high:
                overlapping = readers[bisect_right(ends, low) : bisect_left(begins, high)]
                found += [(number[source.layer, start], reader) for reader in overlapping]
    return found


def _channels(source: Source, first: int, start: int, stop: int) -> tuple[int, int]:
    """Return the operand's channels that come from filters start..stop of the source's layer."""
    low, high = max(start, source.start), min(stop, source.stop)
    return first + (low - source.start) * source.width, first + (high - source.start) * source.width


def build_hybrid_runs(graph: Graph, profile: Profile, *, fc: str = "neurons", runs: Runs | None = None) -> HybridRuns:
    """Return the graph's runs, which may be known already, with the costs of the hybrid grain."""
    runs = runs or build_runs(graph, profile, fc=fc)
    layers = [graph[name] for name in runs.layers]
    times = np.array([1 + (layer.name in graph.learning) for layer in layers])
    copies = [2 * layer.filter_parameter_bytes + 4 * layer.filter_statistics_bytes for layer in layers]
    return HybridRuns(
        replace(runs, map_bytes=runs.map_bytes * times),
        profile.batch,
        copy_bytes=runs.sizes * np.array(copies),
        splits_rows=np.array([graph.splits_rows(layer) for layer in layers], np.int64),
    )
