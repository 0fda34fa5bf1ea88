"""Cut every layer's filters into blocks: runs of neighbours that share one vertex.

Layers tied channel by channel (through an add, a depthwise convolution, a gate) share their block boundaries, so
that a block is read by whole blocks and a net costs exactly what crosses. A boundary also stands wherever someone
reads only a slice, and between the groups of a grouped layer. `blocks` is the most blocks per layer; only where
groups and slices force more are there more.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from hyperplace.values.arrays import Ints
from hyperplace.values.graph import Graph, Layer, Operand, Reads, Rule
from hyperplace.values.layout import Layout
from hyperplace.values.ties import Edges, grouped, pass_on_edges


def filter_blocks(graph: Graph, blocks: int | None, fc: str, cuts: Edges | None = None) -> dict[str, Ints]:
    """Return the block boundaries of every layer, first 0 and last its number of filters.

    A layer that is one vertex by decree is cut only where someone reads a slice of it.

    `blocks` None means one block per filter; `fc` "whole" keeps every linear layer in one block. `cuts` are boundaries
    that someone chose, besides those of blocks of about one size.
    """
    edges: Edges = {layer.name: {0, layer.num_filters} for layer in graph.layers}
    solid = {layer.name for layer in graph.layers if is_solid(layer, fc)}
    pass_on_edges(graph, edges)
    for name, size in _block_sizes(graph, blocks, solid).items():
        edges[name] = set(_cuts(sorted(edges[name]), size)) | (cuts or {}).get(name, set())
    pass_on_edges(graph, edges)
    return {name: np.array(sorted(cuts), np.int64) for name, cuts in edges.items()}


def cuts_of(graph: Graph, layout: Layout) -> Edges:
    """Return where the blocks of every layer must end so that each has one owner, and each of its kernels one part."""
    cuts = {name: set(plane.lines.tolist()) for name, plane in layout.owners.items()}
    for name, plane in layout.kernels.items():
        cuts[name] |= set(plane.lines.tolist())
        for first, source in graph[name].operands[0].located():
            inside = plane.columns[(plane.columns >= first) & (plane.columns <= first + source.num_channels)]
            cuts[source.layer] |= set((source.start + (inside - first) // source.width).tolist())
    return cuts


def row_edges(batch: int, row_blocks: int, cuts: Iterable[int] = ()) -> Ints:
    """Return the boundaries of at most `row_blocks` blocks of rows, the same for all layers, and those of `cuts`."""
    pieces = min(batch, row_blocks)
    return np.array(sorted({*(i * batch // pieces for i in range(pieces + 1)), *cuts}), np.int64)


def is_solid(layer: Layer, fc: str) -> bool:
    """Say whether the layer is one vertex by decree."""
    return layer.rule is Rule.WHOLE or (fc == "whole" and layer.kind == "linear")


def _block_sizes(graph: Graph, blocks: int | None, solid: set[str]) -> dict[str, int]:
    """Return the filters per block of every layer that may be cut: one size for all layers tied together."""
    free = [layer.name for layer in graph.layers if layer.name not in solid]
    pairs = [
        (source.layer, layer.name)
        for layer in graph.layers
        for operand in layer.operands
        for source in operand.sources
        if operand.reads is Reads.SAME and not solid & {layer.name, source.layer}
    ]
    group_of = grouped(free, pairs)
    sizes: dict[str, int] = {}
    for name, group in group_of.items():
        wanted = -(-graph[name].num_filters // blocks) if blocks else 1
        sizes[group] = max(sizes.get(group, 1), wanted)
    return {name: sizes[group] for name, group in group_of.items()}


def _cuts(edges: list[int], size: int) -> list[int]:
    """Cut every run between two boundaries into equal blocks of at most `size` filters."""
    cuts = [edges[-1]]
    for start, stop in pairwise(edges):
        pieces = -(-(stop - start) // size)
        cuts += [start + i * (stop - start) // pieces for i in range(pieces)]
    return cuts


@dataclass(frozen=True)
class Piece:
    """A block of a producer as a range of an operand's channels."""

    layer: str
    block: int
    start: int
    stop: int


def spans(edges: Ints) -> Ints:
    return np.column_stack([edges[:-1], edges[1:]])


def pieces_of(operand: Operand, edges: dict[str, Ints]) -> list[Piece]:
    """Return the producers' blocks that make up an operand, in the order of its channels."""
    pieces = []
    for first, source in operand.located():
        cuts = edges[source.layer]
        low, high = np.searchsorted(cuts, source.start, "right") - 1, np.searchsorted(cuts, source.stop, "left")
        for block in range(int(low), int(high)):
            start = max(int(cuts[block]), source.start) - source.start
            stop = min(int(cuts[block + 1]), source.stop) - source.start
            pieces.append(Piece(source.layer, block, first + start * source.width, first + stop * source.width))
    return pieces
