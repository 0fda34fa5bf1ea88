"""Which values of a captured program share memory, and who writes into it.

torch.export keeps in-place calls. The tracer follows a write through the value written to; a write that some other
name of the same memory would show later is refused, because that reader would be given what was there before.
"""

import operator

from torch.fx import Node

from hyperplace.errors import ModelError

_VIEWS = """
    alias chunk contiguous detach expand expand_as flatten narrow permute reshape select slice split split_with_sizes
    squeeze t tensor_split to transpose unbind unflatten unsqueeze view _unsafe_view
"""


def op_name(node: Node) -> str:
    """Return `conv2d` for aten.conv2d.default; in-place operations keep their underscore."""
    target = node.target
    return str(getattr(target, "overloadpacket", getattr(target, "__name__", target))).split(".")[-1]


def is_in_place(node: Node) -> bool:
    """Say whether the call writes into its first argument."""
    schema = getattr(node.target, "_schema", None)
    first = schema.arguments[0] if schema and schema.arguments else None
    return bool(first and first.alias_info and first.alias_info.is_write)


def refuse_shared_write(node: Node) -> None:
    """Refuse an in-place call if another name of the memory it writes is read afterwards."""
    target = node.args[0]
    assert isinstance(target, Node)
    order = {other: number for number, other in enumerate(node.graph.nodes)}
    for other in sorted(_family(target) - {target, node}, key=order.__getitem__):
        if order[other] < order[node] and any(order[user] > order[node] for user in other.users):
            raise ModelError(
                f"{node.name} writes in place into {target.name}, which shares memory with {other.name}, read later; "
                "such a write cannot be placed: use the operation that returns a new tensor (torch.cat for slices)"
            )


def _family(node: Node) -> set[Node]:
    """Return every name of the memory behind a value."""
    base = node
    while _shares(base) and isinstance(base.args[0], Node):
        base = base.args[0]
    family, todo = {base}, [base]
    while todo:
        for user in todo.pop().users:
            if user not in family and _shares(user) and user.args[0] in family:
                family.add(user)
                todo.append(user)
    return family


def _shares(node: Node) -> bool:
    """Say whether the result of a call may share memory with its first argument."""
    if node.op != "call_function" or not node.args:
        return False
    return op_name(node) in _VIEWS.split() or node.target is operator.getitem or is_in_place(node)
