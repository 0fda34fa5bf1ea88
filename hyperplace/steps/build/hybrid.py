"""The hybrid hypergraph: a vertex per (filter block, row block), whose nets cost what they cost in training.

An activation net joins a block's rows with all that read them; it costs their bytes, twice where their gradient comes
back. A parameter net joins the row blocks of a filter block: each part but one of those it touches sends gradients and
gets weights (twice the trained parameters), and where there are batch norms four messages with their statistics. Row
blocks are the same in all layers. A linear layer under `fc` "whole" is one filter block, but its rows may be split:
data parallelism parts no neurons. A layer placed whole is one vertex that reads and makes all rows.
"""

from dataclasses import dataclass

import numpy as np

from hyperplace.steps.build.blocks import is_solid, pieces_of, spans
from hyperplace.steps.build.nets import Assembly
from hyperplace.values.arrays import Ints
from hyperplace.values.graph import Layer
from hyperplace.values.profile import Profile


@dataclass
class _Cells:
    """A layer's vertices: a line per block, a column per row block; one that has all rows is in every column."""

    makers: Ints  # the vertex each block leaves from
    readers: list[list[Ints]]  # lines of vertices that read each block


def add_cells(assembly: Assembly, profile: Profile, edges: dict[str, Ints], rows: Ints, fc: str) -> None:
    """Add the vertices and nets of all layers; `edges` are the blocks of filters, `rows` those of rows."""
    cells: dict[str, _Cells] = {}
    for layer in assembly.graph.layers:
        cut = np.array([0, layer.num_filters]) if is_solid(layer, fc) else edges[layer.name]
        own = _add_vertices(assembly, layer, profile, cut, rows)
        _enter_as_reader(layer, own, cut, edges, cells)
        makers = own[np.searchsorted(cut, edges[layer.name][:-1], "right") - 1]
        cells[layer.name] = _Cells(makers, [[] for _ in makers])
        _add_parameter_nets(assembly, layer, own, cut)
    for layer in assembly.graph.layers:
        _add_activation_nets(assembly, layer, cells[layer.name], edges[layer.name], rows)


def _add_vertices(assembly: Assembly, layer: Layer, profile: Profile, cut: Ints, rows: Ints) -> Ints:
    """Add a vertex per filter block and row block, or per filter block where rows stay together."""
    graph, blocks, columns = assembly.graph, len(cut) - 1, len(rows) - 1
    filters, sizes = spans(cut), np.diff(cut)
    number = graph.index_of[layer.name]
    if not graph.splits_rows(layer):
        work = sizes * np.float64(profile[layer.name].filter_work)
        vertices = assembly.add_vertices(number, filters, None, work)
        return np.repeat(vertices[:, None], columns, axis=1)
    work = np.outer(sizes, np.diff(rows)).ravel() * (profile[layer.name].filter_work / profile.batch)
    filters, pieces = np.repeat(filters, columns, axis=0), np.tile(spans(rows), (blocks, 1))
    return assembly.add_vertices(number, filters, None, work, pieces).reshape(blocks, columns)


def _enter_as_reader(layer: Layer, own: Ints, cut: Ints, edges: dict[str, Ints], cells: dict[str, _Cells]) -> None:
    for operand in layer.operands:
        pieces = pieces_of(operand, edges)
        ranges = [layer.channels_read(operand, ((start, stop),))[0] for start, stop in spans(cut).tolist()]
        if len(set(ranges)) == 1:
            for piece in pieces:
                cells[piece.layer].readers[piece.block].append(own)
            continue
        starts = np.array([piece.start for piece in pieces])
        for line, (low, high) in enumerate(ranges):
            first = int(np.searchsorted(starts, low, "right")) - 1
            for piece in pieces[first : int(np.searchsorted(starts, high, "left"))]:
                cells[piece.layer].readers[piece.block].append(own[line : line + 1])


def _add_activation_nets(assembly: Assembly, layer: Layer, cells: _Cells, edges: Ints, rows: Ints) -> None:
    number, times = assembly.graph.index_of[layer.name], 1 + (layer.name in assembly.graph.learning)
    for block, size in enumerate(np.diff(edges).tolist()):
        for column, length in enumerate(np.diff(rows).tolist()):
            pins = [cells.makers[block, column : column + 1], *(lines[:, column] for lines in cells.readers[block])]
            once = 0 if column else layer.fixed_bytes  # nobody splits the rows of what has none
            assembly.add_net(number, pins, (size * length * layer.map_bytes + once) * times)


def _add_parameter_nets(assembly: Assembly, layer: Layer, own: Ints, cut: Ints) -> None:
    cost = 2 * layer.filter_parameter_bytes + 4 * layer.filter_statistics_bytes
    if cost and assembly.graph.splits_rows(layer):
        for line, size in zip(own, np.diff(cut).tolist(), strict=True):
            assembly.add_net(assembly.graph.index_of[layer.name], [line], size * cost, is_weights=True)
