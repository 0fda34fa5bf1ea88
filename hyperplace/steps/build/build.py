"""The hypergraph of a graph; the coarse and the fine one here, the hybrid one beside it (hybrid.py).

Coarse: a vertex per filter block. Fine: a layer that sums over channels has a vertex per (filter block, channel
block) kernel and a reduction vertex per filter block; every other layer is as in coarse. Either way each block has one
net to all that read it (expand), in the fine grain also one from its kernels to its reduction (fold).
"""

from dataclasses import dataclass

import numpy as np

from hyperplace.errors import UsageError
from hyperplace.steps.build.blocks import Piece, cuts_of, filter_blocks, is_solid, pieces_of, row_edges, spans
from hyperplace.steps.build.hybrid import add_cells
from hyperplace.steps.build.nets import Assembly
from hyperplace.values.arrays import Ints
from hyperplace.values.graph import Graph, Layer
from hyperplace.values.hypergraph import Hypergraph
from hyperplace.values.layout import Layout
from hyperplace.values.plan import FC, GRAINS
from hyperplace.values.profile import LayerCost, Profile

DEFAULT_BLOCKS = 64
DEFAULT_ROW_BLOCKS = 8


@dataclass
class _Placed:
    """A layer's vertices: who makes each block, who computes it, and who reads each block."""

    makers: Ints  # the vertex each block leaves from
    readers: list[list[Ints]]  # the vertices that read each block
    kernels: list[Ints]  # fine only: the kernels of each block


def build(
    graph: Graph,
    profile: Profile,
    *,
    grain: str = "coarse",
    blocks: int | None = DEFAULT_BLOCKS,
    fc: str = "neurons",
    row_blocks: int = DEFAULT_ROW_BLOCKS,
    layout: Layout | None = None,
) -> Hypergraph:
    """Return the hypergraph of the graph; `blocks` None means a block per filter.

    `row_blocks` is the most blocks of rows, for the hybrid grain only. Where a layout is given, blocks also end where
    its owners change, so that it is a partition of the hypergraph.
    """
    if grain not in GRAINS:
        raise UsageError(f"grain {grain!r} is unknown; choose one of {', '.join(GRAINS)}")
    if fc not in FC:
        raise UsageError(f"fc {fc!r} is unknown; choose one of {', '.join(FC)}")
    if blocks is not None and blocks < 1:
        raise UsageError(f"blocks {blocks} is less than 1; give the most blocks per layer, or all")
    if row_blocks < 1:
        raise UsageError(f"row blocks {row_blocks} is less than 1; give the most blocks of rows")
    if missing := [layer.name for layer in graph.layers if layer.name not in profile]:
        raise UsageError(f"the profile has no layer {missing[0]}; it belongs to another model: measure it again")
    edges = filter_blocks(graph, blocks, fc, cuts_of(graph, layout) if layout else None)
    assembly = Assembly(graph)
    if grain == "hybrid":
        rows = row_edges(profile.batch, row_blocks, layout.row_cuts if layout else ())
        add_cells(assembly, profile, edges, rows, fc)
        return assembly.hypergraph(profile.unit)
    placed: dict[str, _Placed] = {}
    for layer in graph.layers:
        split = grain == "fine" and layer.sums_channels
        add = _add_solid if is_solid(layer, fc) else _add_kernels if split else _add_blocks
        placed[layer.name] = add(assembly, layer, profile[layer.name], edges, placed)
    for layer in graph.layers:
        _add_nets(assembly, layer, placed[layer.name], edges[layer.name], profile.batch)
    return assembly.hypergraph(profile.unit)


def _add_blocks(
    assembly: Assembly, layer: Layer, cost: LayerCost, edges: dict[str, Ints], placed: dict[str, _Placed]
) -> _Placed:
    """Add a vertex per block, and enter each as a reader of what it reads."""
    filters = spans(edges[layer.name])
    work = np.diff(filters).ravel() * np.float64(cost.filter_work)
    vertices = assembly.add_vertices(assembly.graph.index_of[layer.name], filters, None, work)
    for operand in layer.operands:
        pieces = pieces_of(operand, edges)
        ranges = [layer.channels_read(operand, ((start, stop),))[0] for start, stop in filters.tolist()]
        if len(set(ranges)) == 1:
            for piece in pieces:
                placed[piece.layer].readers[piece.block].append(vertices)
            continue
        starts = np.array([piece.start for piece in pieces])
        for vertex, (low, high) in zip(vertices, ranges, strict=True):
            first = int(np.searchsorted(starts, low, "right")) - 1
            for piece in pieces[first : int(np.searchsorted(starts, high, "left"))]:
                placed[piece.layer].readers[piece.block].append(np.array([vertex]))
    return _Placed(vertices, [[] for _ in vertices], [])


def _add_solid(
    assembly: Assembly, layer: Layer, cost: LayerCost, edges: dict[str, Ints], placed: dict[str, _Placed]
) -> _Placed:
    """Add one vertex; it still has a net per block, since readers may want only some."""
    work = np.array([layer.num_filters * cost.filter_work])
    filters = np.array([[0, layer.num_filters]])
    vertex = assembly.add_vertices(assembly.graph.index_of[layer.name], filters, None, work)
    for operand in layer.operands:
        for piece in pieces_of(operand, edges):
            placed[piece.layer].readers[piece.block].append(vertex)
    num_blocks = len(edges[layer.name]) - 1
    return _Placed(np.repeat(vertex, num_blocks), [[] for _ in range(num_blocks)], [])


def _add_kernels(
    assembly: Assembly, layer: Layer, cost: LayerCost, edges: dict[str, Ints], placed: dict[str, _Placed]
) -> _Placed:
    """Add a vertex per (filter block, channel block) and a reduction per filter block."""
    number, filters = assembly.graph.index_of[layer.name], spans(edges[layer.name])
    (operand,) = layer.operands
    pieces = pieces_of(operand, edges)
    channels = np.array([(piece.start, piece.stop) for piece in pieces])
    kernels = []
    for start, stop in filters.tolist():
        ((low, high),) = layer.channels_read(operand, ((start, stop),))
        read = np.flatnonzero((channels[:, 0] < high) & (channels[:, 1] > low))
        mine = channels[read].clip(low, high)
        span = np.tile([start, stop], (len(read), 1))
        work = (stop - start) * np.diff(mine).ravel() * np.float64(cost.kernel_work)
        kernels.append((read, assembly.add_vertices(number, span, mine, work)))
    _enter_kernels(kernels, pieces, placed)
    tails = np.diff(filters).ravel() * np.float64(cost.tail_work)
    reductions = assembly.add_vertices(number, filters, None, tails)
    return _Placed(reductions, [[] for _ in reductions], [vertices for _, vertices in kernels])


def _enter_kernels(kernels: list[tuple[Ints, Ints]], pieces: list[Piece], placed: dict[str, _Placed]) -> None:
    """Enter every kernel as a reader of the block its channels come from."""
    read = np.concatenate([piece for piece, _ in kernels])
    vertices = np.concatenate([v for _, v in kernels])
    order = np.argsort(read, kind="stable")
    bounds = np.searchsorted(read[order], np.arange(len(pieces) + 1))
    for number, piece in enumerate(pieces):
        readers = vertices[order[bounds[number] : bounds[number + 1]]]
        if len(readers):
            placed[piece.layer].readers[piece.block].append(readers)


def _add_nets(assembly: Assembly, layer: Layer, placed: _Placed, edges: Ints, batch: int) -> None:
    number, sizes = assembly.graph.index_of[layer.name], np.diff(edges).tolist()
    for block, kernels in enumerate(placed.kernels):
        cost = sizes[block] * layer.partial_bytes * batch
        assembly.add_net(number, [placed.makers[block : block + 1], kernels], cost, is_fold=True)
    for block, readers in enumerate(placed.readers):
        cost = sizes[block] * layer.map_bytes * batch + layer.fixed_bytes
        assembly.add_net(number, [placed.makers[block : block + 1], *readers], cost)
