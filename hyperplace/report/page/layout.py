"""Where the layers of a network stand: layers and who reads whom -> rows and columns, and the blocks that fold.

Layers whose names begin alike (`layer1.0.conv1`, `layer1.0.add`) are a block: an item of the drawing like any other
layer, with rows and columns of its own inside. A layer stands one row below the lowest of those it reads, and within a
row in the order of what it reads and is read by. Items never share a place, so whoever draws them only adds up the
heights of rows and the widths of items, folded or not.
"""

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

LEAST_LAYERS = 3  # of a block: what folds fewer saves nothing
SWEEPS = 4  # down and up, after which the order of a row hardly changes

N = TypeVar("N", bound=Hashable)
Edge = tuple[N, N]


@dataclass(frozen=True)
class Spot:
    """The row and column of something, both counted from 0."""

    row: int
    column: int


@dataclass(frozen=True)
class Item:
    """A layer by itself, or a block with where each of its layers stands inside it."""

    name: str
    spot: Spot
    layers: Mapping[str, Spot]
    is_block: bool


def lay_out(names: Sequence[str], edges: Iterable[tuple[str, str]]) -> tuple[Item, ...]:
    """Return where everything stands; names come in an order in which what each reads comes first."""
    edges = list(edges)
    block_of = _acyclic(_blocks(names), names, edges)
    members: dict[str, list[str]] = defaultdict(list)
    for name in names:
        members[block_of.get(name, name)].append(name)
    inner: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for source, target in edges:
        if source in block_of and block_of[source] == block_of.get(target):
            inner[block_of[source]].append((source, target))
    item_of = {name: item for item, some in members.items() for name in some}
    order = list(members)
    outer = {(item_of[a], item_of[b]) for a, b in edges if item_of[a] != item_of[b]}
    spots = layered(_sorted(order, outer), sorted(outer))
    return tuple(
        Item(item, spots[item], layered(members[item], inner[item]), item in set(block_of.values())) for item in order
    )


def _blocks(names: Sequence[str]) -> dict[str, str]:
    """Return the block of every layer that is in one: the longest beginning that enough layers share."""
    sizes = Counter(beginning for name in names for beginning in _beginnings(name))
    found = {}
    for name in names:
        for beginning in reversed(_beginnings(name)):
            if sizes[beginning] >= LEAST_LAYERS:
                found[name] = beginning
                break
    # What is called like a block would be taken for it; and a block that lost layers to a longer one may be too small.
    kept = Counter(found.values())
    return {name: block for name, block in found.items() if kept[block] >= LEAST_LAYERS and block not in names}


def _beginnings(name: str) -> list[str]:
    words = name.split(".")
    return [".".join(words[:count]) for count in range(1, len(words))]


def _acyclic(block_of: dict[str, str], names: Sequence[str], edges: list[tuple[str, str]]) -> dict[str, str]:
    """Return the blocks that can be folded: what leaves one and comes back would have to stand above and below it."""
    import networkx as nx

    while True:
        folded = nx.DiGraph()
        folded.add_nodes_from(block_of.get(name, name) for name in names)
        folded.add_edges_from((block_of.get(a, a), block_of.get(b, b)) for a, b in edges)
        circles = [some for some in nx.strongly_connected_components(folded) if len(some) > 1]
        if not circles:
            return block_of
        bad = set().union(*circles)
        block_of = {name: block for name, block in block_of.items() if block not in bad}


def _sorted(items: Sequence[str], edges: Iterable[tuple[str, str]]) -> list[str]:
    """Return the items so that what each reads comes first, otherwise as they are."""
    import networkx as nx

    graph = nx.DiGraph()
    graph.add_nodes_from(items)
    graph.add_edges_from(edges)
    place = {item: number for number, item in enumerate(items)}
    return list(nx.lexicographical_topological_sort(graph, key=place.__getitem__))


def layered(nodes: Sequence[N], edges: Iterable[Edge[N]]) -> dict[N, Spot]:
    """Return the row and column of every node; nodes come in an order in which what each reads comes first."""
    above: dict[N, list[N]] = {node: [] for node in nodes}
    below: dict[N, list[N]] = {node: [] for node in nodes}
    for source, target in edges:
        above[target].append(source)
        below[source].append(target)
    row_of: dict[N, int] = {}
    for node in nodes:
        row_of[node] = 1 + max((row_of[one] for one in above[node]), default=-1)
    rows: list[list[N]] = [[] for _ in range(1 + max(row_of.values(), default=-1))]
    for node in nodes:
        rows[row_of[node]].append(node)
    _untangle(rows, above, below)
    return {node: Spot(row, column) for row, some in enumerate(rows) for column, node in enumerate(some)}


def _untangle(rows: list[list[N]], above: Mapping[N, list[N]], below: Mapping[N, list[N]]) -> None:
    """Order every row by the mean place of its neighbours above, then below, and again."""
    place = {node: _centred(column, len(row)) for row in rows for column, node in enumerate(row)}
    for sweep in range(2 * SWEEPS):
        neighbours = below if sweep % 2 else above
        for row in reversed(rows) if sweep % 2 else rows:
            if len(row) > 1:
                means = {node: _mean([place[one] for one in neighbours[node]], place[node]) for node in row}
                row.sort(key=means.__getitem__)
                place |= {node: _centred(column, len(row)) for column, node in enumerate(row)}


def _centred(column: int, width: int) -> float:
    return column - (width - 1) / 2


def _mean(places: list[float], default: float) -> float:
    return sum(places) / len(places) if places else default
