"""Exchange interchangeable filters so that what a part holds of a layer is one range.

A part that holds 205 of 512 equal filters may as well hold the first 205: no byte and no work changes, and shards
become slices instead of gathers. A filter takes all its rows along, whoever owns them. Filters tied channel by
channel (an add and its operands) move together: a column is such a set of tied filters, and columns of one type, that
is in the same interchangeable runs of the same layers, are sorted by what is assigned to their members.
"""

from itertools import groupby

import numpy as np

from hyperplace.steps.place.layers import Assignment
from hyperplace.values.arrays import Ints
from hyperplace.values.graph import Graph, Operand, Reads
from hyperplace.values.ties import interchangeable_edges


def exchange(graph: Graph, found: dict[str, Assignment]) -> None:
    """Reorder the assignments in place."""
    base = np.cumsum([0, *(layer.num_filters for layer in graph.layers)])
    column_of = _columns(graph, base)
    entries = _entries(graph, found, base)
    order = np.argsort(column_of, kind="stable")
    columns = [list(members) for _, members in groupby(order.tolist(), key=lambda f: column_of[f])]
    run_of = _runs(graph, base)
    types: dict[tuple[int, ...], list[list[int]]] = {}
    for members in columns:
        types.setdefault(tuple(run_of[members].tolist()), []).append(members)
    for alike in types.values():
        _sort(alike, entries)


def _columns(graph: Graph, base: Ints) -> Ints:
    """Return for every filter of the graph the smallest filter it is tied to, directly or through others."""
    column_of = np.arange(base[-1])
    ties = []
    for number, layer in enumerate(graph.layers):
        for operand in layer.operands:
            if operand.reads is Reads.SAME:
                ties.append((base[number] + np.arange(layer.num_filters), _filters_of(graph, operand, base)))
    changed = True
    while changed:
        before = column_of.copy()
        for one, other in ties:
            lowest = np.minimum(column_of[one], column_of[other])
            np.minimum.at(column_of, one, lowest)
            np.minimum.at(column_of, other, lowest)
        changed = not np.array_equal(before, column_of)
    return column_of


def _filters_of(graph: Graph, operand: Operand, base: Ints) -> Ints:
    """Return the filter, numbered over the whole graph, that every channel of the operand comes from."""
    runs = [base[graph.index_of[s.layer]] + np.repeat(np.arange(s.start, s.stop), s.width) for s in operand.sources]
    return np.concatenate(runs)


def _runs(graph: Graph, base: Ints) -> Ints:
    """Return for every filter the number of its interchangeable run, over the whole graph."""
    edges = interchangeable_edges(graph)
    starts = np.concatenate([base[i] + sorted(edges[layer.name])[:-1] for i, layer in enumerate(graph.layers)])
    return np.searchsorted(starts, np.arange(base[-1]), "right") - 1


def _entries(graph: Graph, found: dict[str, Assignment], base: Ints) -> dict[int, list[tuple[Ints, int]]]:
    """Return for every filter the array entries that say where it is computed, owned and read.

    The entries of two interchangeable filters correspond one by one; an entry is (array, position).
    """
    entries: dict[int, list[tuple[Ints, int]]] = {f: [] for f in range(int(base[-1]))}
    for number, layer in enumerate(graph.layers):
        assignment = found[layer.name]
        for filter_ in range(layer.num_filters):
            mine = entries[int(base[number]) + filter_]
            mine.append((assignment.pattern_of, filter_))
            if assignment.grid is not None:
                mine.append((assignment.row_of, filter_))
    for layer in graph.layers:
        assignment = found[layer.name]
        if assignment.grid is not None:
            for channel, filter_ in enumerate(_filters_of(graph, layer.operands[0], base).tolist()):
                entries[filter_].append((assignment.column_of, channel))
    return entries


def _sort(alike: list[list[int]], entries: dict[int, list[tuple[Ints, int]]]) -> None:
    """Hand the columns' contents out again in sorted order; the columns come in order of position."""
    slots = [[entry for member in members for entry in entries[member]] for members in alike]
    contents = sorted([int(array[position]) for array, position in column] for column in slots)
    for column, content in zip(slots, contents, strict=True):
        for (array, position), value in zip(column, content, strict=True):
            array[position] = value
