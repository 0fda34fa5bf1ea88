"""Which filters of a graph are interchangeable, and which are tied to each other.

Filters of a layer are interchangeable while everyone who reads one reads the other too. Where a slice or a group
is read the run ends; layers joined channel by channel (SAME) pass their boundaries on to each other.
"""

from collections.abc import Iterable, Iterator

from hyperplace.values.graph import Graph, Layer, Operand, Reads, Source

Edges = dict[str, set[int]]


def interchangeable_edges(graph: Graph) -> Edges:
    """Return for every layer the boundaries between its runs of interchangeable filters."""
    edges: Edges = {layer.name: {0, layer.num_filters} for layer in graph.layers}
    pass_on_edges(graph, edges)
    return edges


def tied_layers(graph: Graph) -> Iterator[tuple[str, str]]:
    """Yield the pairs of layers that share all their channels: an add and what it adds, but no part of a concat."""
    for layer in graph.layers:
        for operand in layer.operands:
            if operand.reads is Reads.SAME and len(operand.sources) == 1:
                source = operand.sources[0]
                if source.stop - source.start == graph[source.layer].num_filters:
                    yield source.layer, layer.name


def grouped(names: Iterable[str], pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return for every name one that stands for all that the pairs join with it."""
    group = {name: name for name in names}

    def root(name: str) -> str:
        while group[name] != name:
            name = group[name]
        return name

    for one, other in pairs:
        group[root(one)] = root(other)
    return {name: root(name) for name in group}


def pass_on_edges(graph: Graph, edges: Edges) -> None:
    """Add to `edges` what slices, groups and channel-by-channel ties demand."""
    before = -1
    while before != (before := sum(map(len, edges.values()))):
        for layer in graph.layers:
            for operand in layer.operands:
                _pass_on_operand(layer, operand, edges)


def _pass_on_operand(layer: Layer, operand: Operand, edges: Edges) -> None:
    group_edges: set[int] = set()
    if operand.reads is Reads.GROUP:
        group_edges = {g * operand.num_channels // layer.groups for g in range(layer.groups + 1)}
        edges[layer.name] |= {g * layer.num_filters // layer.groups for g in range(layer.groups + 1)}
    for first, source in operand.located():
        edges[source.layer] |= {source.start, source.stop}
        edges[source.layer] |= _to_filters(source, first, group_edges)
        if operand.reads is Reads.SAME:
            _pass_on_channels(layer, source, first, edges)


def _pass_on_channels(layer: Layer, source: Source, first: int, edges: Edges) -> None:
    edges[layer.name] |= {first, first + source.num_channels}
    inside = {e for e in edges[source.layer] if source.start <= e <= source.stop}
    edges[layer.name] |= {first + (e - source.start) * source.width for e in inside}
    edges[source.layer] |= _to_filters(source, first, edges[layer.name])


def _to_filters(source: Source, first: int, channels: set[int]) -> set[int]:
    """Return the filters of the source at which the given channel boundaries lie: both sides of one cut through."""
    inside = [channel - first for channel in channels if first <= channel <= first + source.num_channels]
    return {source.start + side // source.width for c in inside for side in (c, c + source.width - 1)}
