"""Which values of a captured program share memory, and who writes into it.

torch.export keeps in-place calls, so the order of a program's calls is part of its meaning: `order_of` says what must
come before what, through values and through memory.
"""

import operator
from dataclasses import dataclass, field

import torch
from torch.fx import Graph, Node

Needs = dict[Node, set[Node]]  # what must be done before a node
_NORMS = ("batch_norm", "instance_norm")  # which write their running statistics, though their schemas do not say so


def op_name(node: Node) -> str:
    """Return `conv2d` for aten.conv2d.default; in-place operations keep their underscore."""
    target = node.target
    return str(getattr(target, "overloadpacket", getattr(target, "__name__", target))).split(".")[-1]


def is_in_place(node: Node) -> bool:
    """Say whether the call writes into its first argument."""
    return bool(node.args) and node.args[0] in written(node)


def written(node: Node) -> list[Node]:
    """Return the arguments that a call writes into, as its schema says."""
    schema = getattr(node.target, "_schema", None) if node.op == "call_function" else None
    if schema is None:
        return []
    named = dict(zip((a.name for a in schema.arguments), node.args, strict=False)) | node.kwargs
    targets = [named.get(a.name) for a in schema.arguments if a.alias_info and a.alias_info.is_write]
    return [target for target in targets if isinstance(target, Node)]


def tracked(node: Node) -> list[Node]:
    """Return the running statistics that a norm in training mode writes."""
    if op_name(node) not in _NORMS or not node.args[5]:
        return []
    return [statistic for statistic in node.args[3:5] if isinstance(statistic, Node)]


def viewed(node: Node) -> Node | None:
    """Return the argument whose memory a call's result may share."""
    if node.op != "call_function" or not node.args or not isinstance(node.args[0], Node):
        return None
    first = node.args[0]
    if node.target is operator.getitem:
        return first if viewed(first) else None
    schema = getattr(node.target, "_schema", None)
    shares = schema is not None and any(one.alias_info for one in schema.returns)
    return first if shares else None


def is_random(node: Node) -> bool:
    """Say whether a call draws random numbers, other than a dropout, which the runtime does itself."""
    tags = getattr(node.target, "tags", ())
    if torch.Tag.nondeterministic_seeded not in tags or "dropout" in op_name(node):
        return False
    schema = node.target._schema  # type: ignore[union-attr]
    named = dict(zip((a.name for a in schema.arguments), node.args, strict=False)) | node.kwargs
    chances = [named[name] for name in ("dropout_p", "dropout") if name in named]
    return not ("dropout_p" in {a.name for a in schema.arguments} or chances) or any(chances)


def base_of(node: Node) -> Node:
    """Return the value whose memory this is, or shares."""
    while (source := viewed(node)) is not None:
        node = source
    return node


@dataclass
class Family:
    """All names of one piece of memory: the value that has it, then those that share it, and every write into it."""

    base: Node
    members: list[Node] = field(default_factory=list)
    writes: list[Node] = field(default_factory=list)
    touches: list[Node] = field(default_factory=list)  # whoever reads or writes any of it, in order


def families(graph: Graph) -> list[Family]:
    """Return the families of a program that something writes into."""
    found: dict[Node, Family] = {}
    base: dict[Node, Node] = {}
    for node in graph.nodes:
        if node.op not in ("placeholder", "call_function", "output"):
            continue
        source = viewed(node)
        base[node] = base[source] if source is not None else node
        found.setdefault(base[node], Family(base[node])).members.append(node)
        for one in dict.fromkeys(base[n] for n in node.all_input_nodes if n in base):
            found[one].touches.append(node)
        for one in dict.fromkeys(base[target] for target in (*written(node), *tracked(node))):
            found[one].writes.append(node)
    return [family for family in found.values() if family.writes]


def needs_of(graph: Graph, written_to: list[Family]) -> Needs:
    """Return what every call must come after: its arguments, and whoever reads or writes memory before it."""
    needs: Needs = {node: set(node.all_input_nodes) for node in graph.nodes}
    for family in written_to:
        last_write: Node | None = None
        since: list[Node] = []
        writes = set(family.writes)
        for node in family.touches:
            if last_write is not None:
                needs[node].add(last_write)
            if node in writes:
                needs[node].update(since)
                last_write, since = node, []
            else:
                since.append(node)
    return needs
