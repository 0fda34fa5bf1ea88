"""Runs of calls that must stay together: those that write into memory which others see, and those of a context.

A region becomes one layer placed whole, whose calls are run just as the model runs them. That is how a write into a
slice, a buffer that the model changes, or a block under torch.autocast is right without a rule of its own.
"""

import operator
from collections.abc import Iterable
from typing import TYPE_CHECKING

from torch.fx import Graph, Node

from hyperplace.steps.capture.aliases import Family, Needs, families, is_random, needs_of, tracked, written
from hyperplace.steps.capture.export import WITHIN
from hyperplace.steps.capture.nodes import module_of

if TYPE_CHECKING:
    import networkx as nx

Region = tuple[Node, ...]


def units(graph: Graph, buffers: set[Node]) -> list[Node | Region]:
    """Return the calls in an order that keeps their meaning, with those of a region together."""
    import networkx as nx

    written_to = families(graph)
    needs = needs_of(graph, written_to)
    seeds = [seed for family in written_to if (seed := _seed(family, buffers))] + _blocks(graph)
    seeds += [{node} for node in graph.nodes if is_random(node)]  # drawn once, whoever reads it
    contracted, order = _contracted(graph, needs, seeds), {node: number for number, node in enumerate(graph.nodes)}
    # A region comes at the place of its last call: what reads memory before it is written comes before.
    sorted_units = nx.lexicographical_topological_sort(contracted, key=lambda unit: max(order[n] for n in unit))
    regions = set().union(*seeds)
    return [tuple(sorted(unit, key=order.__getitem__)) if unit & regions else next(iter(unit)) for unit in sorted_units]


def _blocks(graph: Graph) -> list[set[Node]]:
    """Return the calls that run in a context, neighbours of the same one together."""
    blocks: list[set[Node]] = []
    before: object = ()
    for node in graph.nodes:
        within = node.meta.get(WITHIN, ())
        if within and within == before:
            blocks[-1].add(node)
        elif within:
            blocks.append({node})
        before = within if node.op == "call_function" else before
    return blocks


def _seed(family: Family, buffers: set[Node]) -> set[Node]:
    """Return the calls that cannot be told apart from a family's writes; none where a write is only a new value."""
    is_buffer = family.base in buffers
    if _is_own_affair(family) if is_buffer else _is_plain(family):
        return set()
    order = {node: number for number, node in enumerate(family.base.graph.nodes)}
    first, last = order[family.writes[0]], order[family.writes[-1]]
    early = [m for m in family.members if m is not family.base and order[m] < last]
    shared = [m for m in early if any(order[user] >= first for user in m.users)]
    seed = {*family.writes, *(m for member in shared for m in _chain(member, family))}
    if is_buffer:  # lives in one place, so whoever reads it before the last write is there too
        seed |= {node for node in family.touches if order[node] < last and node.op == "call_function"}
    return seed


def _is_own_affair(family: Family) -> bool:
    """Say whether a buffer is touched by one call only: a norm's statistics, or a counter that nobody reads."""
    if len(family.touches) > 1:
        return False
    node = family.touches[0]
    is_counter = node.all_input_nodes == [family.base] and not node.users
    return bool(tracked(node)) or (is_counter and module_of(node)[1].startswith("torch.nn.modules."))


def _is_plain(family: Family) -> bool:
    """Say whether every write is of a whole value of which no other name is read afterwards."""
    order = {node: number for number, node in enumerate(family.base.graph.nodes)}
    for node in family.writes:
        targets = {*written(node), *tracked(node)}
        others = [m for m in family.members if m not in targets and m is not node and order[m] < order[node]]
        if any(order[user] > order[node] for other in others for user in other.users):
            return False
    return True


def _chain(member: Node, family: Family) -> Iterable[Node]:
    """Yield a member and what it is a view of, up to the base."""
    node: Node | None = member
    known = set(family.members)
    while node is not None and node is not family.base and node in known:
        yield node
        first = node.args[0]
        node = first if isinstance(first, Node) else None


def _contracted(graph: Graph, needs: Needs, seeds: list[set[Node]]) -> "nx.DiGraph[frozenset[Node]]":
    """Return the calls as a graph without circles, in which every seed is in one node with all that lies between."""
    import networkx as nx

    unit_of = {node: frozenset([node]) for node in graph.nodes}
    todo = [_with_single_results(seed) for seed in seeds]
    while True:
        for seed in todo:
            unit = frozenset().union(*(unit_of[node] for node in seed))
            unit_of |= dict.fromkeys(unit, unit)
        contracted: nx.DiGraph[frozenset[Node]] = nx.DiGraph()
        contracted.add_nodes_from(unit_of.values())
        for node, others in needs.items():
            contracted.add_edges_from((unit_of[n], unit_of[node]) for n in others if unit_of[n] != unit_of[node])
        # What lies between two calls of a region needs the one and is needed by the other: a circle.
        circles = [circle for circle in nx.strongly_connected_components(contracted) if len(circle) > 1]
        if not circles:
            return contracted
        todo = [_with_single_results(set().union(*circle)) for circle in circles]


def _with_single_results(seed: set[Node]) -> set[Node]:
    """Return the calls with those that take one of several results of one of them."""
    return seed | {user for node in seed for user in node.users if user.target is operator.getitem}
