"""What to run for a layer: its anchor, a half of its anchor, or its tail, with the tensors they read.

A piece says nothing of the layer it came from, so equal pieces of different layers compare equal and are timed once.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from hyperplace.steps.profile.work import Slice, weight_shape
from hyperplace.values.graph import Call, Graph, Layer, Operand, Ref, Rows, Rule

_GROUPS = 6  # where convolutions, transposed or not, take `groups`


class Unrunnable(Exception):
    """A piece that cannot be run; its message is the reason."""


@dataclass(frozen=True)
class Leaf:
    """A tensor to make before a run: an operand, a parameter or a buffer."""

    shape: tuple[int, ...]
    learns: bool  # its gradient is computed
    is_state: bool = False
    element_bytes: int = 4
    name: str = ""


@dataclass(frozen=True)
class Piece:
    """Calls, and the tensors they read, both by numbers in order of first use."""

    calls: tuple[Call, ...]
    leaves: tuple[Leaf, ...]


def anchor_piece(graph: Graph, layer: Layer, rows: int) -> Piece:
    """Return the layer's anchor with what computes its parameters; of a layer placed whole, all of it."""
    calls = layer.calls if layer.rule is Rule.WHOLE else layer.calls[: layer.num_anchor_calls]
    return _piece(_at_rows(calls, rows), _leaves(graph, layer, rows))


def sliced_piece(graph: Graph, layer: Layer, rows: int, slice_: Slice) -> Piece:
    """Return the anchor of a layer that sums over channels, cut down to the slice."""
    *before, anchor = layer.calls[: layer.num_anchor_calls]
    (operand,), leaves = layer.operands, _leaves(graph, layer, rows)
    for ref, leaf in leaves.items():
        if leaf.shape == (layer.num_filters,):
            leaves[ref] = replace(leaf, shape=(slice_.filters,))
    data, weight = leaves[Ref(operand.value)], _argument(anchor, 1, "weight")
    leaves[Ref(operand.value)] = replace(data, shape=(rows, slice_.channels, *data.shape[2:]))
    leaves[weight] = replace(leaves[weight], shape=weight_shape(layer, slice_, leaves[weight].shape))
    return _piece((*before, _in_groups(anchor, slice_.groups)), leaves)


def tail_piece(graph: Graph, layer: Layer, rows: int) -> Piece | None:
    """Return the trailing calls, which read the anchor's output; None where there are none."""
    calls = layer.calls[layer.num_anchor_calls :]
    if not calls or layer.rule is Rule.WHOLE:
        return None
    anchor = layer.calls[layer.num_anchor_calls - 1]
    leaves = _leaves(graph, layer, rows)
    leaves[Ref(anchor.value)] = Leaf(_scaled(anchor, rows), learns=True)
    return _piece(_at_rows(calls, rows), leaves)


def _leaves(graph: Graph, layer: Layer, rows: int) -> dict[Ref, Leaf]:
    """Return every tensor that comes from outside the layer's calls."""
    leaves = {
        Ref(operand.value): Leaf(_scaled(operand, rows), _has_producer(graph, operand)) for operand in layer.operands
    }
    for state in layer.parameters:
        element_bytes = state.num_bytes // max(prod(state.shape), 1)
        leaves[Ref(state.name, is_state=True)] = Leaf(state.shape, state.trained, True, element_bytes)
    return leaves


def _has_producer(graph: Graph, operand: Operand) -> bool:
    """Whether somebody waits for the operand's gradient: nobody does for the model's inputs."""
    return any(graph[source.layer].rule is not Rule.INPUT for source in operand.sources)


def _scaled(value: Operand | Call, rows: int) -> tuple[int, ...]:
    return (rows, *value.shape[1:]) if value.has_rows else value.shape


def _at_rows(calls: tuple[Call, ...], rows: int) -> tuple[Call, ...]:
    """Return the calls with numbers for whatever follows the rows."""

    def adapted(arg: Any) -> Any:
        if isinstance(arg, Rows):
            return arg.at(rows)
        return tuple(map(adapted, arg)) if isinstance(arg, tuple) else arg

    return tuple(replace(call, args=adapted(call.args), kwargs=adapted(call.kwargs)) for call in calls)


def _piece(calls: tuple[Call, ...], outside: dict[Ref, Leaf]) -> Piece:
    numbers: dict[Ref, Ref] = {}
    leaves: list[Leaf] = []

    def numbered(ref: Ref) -> Ref:
        if ref not in numbers:
            if ref not in outside:
                raise Unrunnable(f"it reads {ref.name}, whose shape was not captured")
            numbers[ref] = Ref(str(len(numbers)))
            leaves.append(replace(outside[ref], name=numbers[ref].name))
        return numbers[ref]

    steps = []
    for call in calls:
        args, kwargs = map_refs(call.args, numbered), map_refs(call.kwargs, numbered)
        numbers[Ref(call.value)] = Ref(str(len(numbers)))
        steps.append(Call(numbers[Ref(call.value)].name, call.op, args, kwargs, (), within=call.within))
    return Piece(tuple(steps), tuple(leaves))


def map_refs(arg: Any, function: Callable[[Ref], Any]) -> Any:
    """Return an argument with the function applied to every Ref in it."""
    if isinstance(arg, Ref):
        return function(arg)
    return tuple(map_refs(a, function) for a in arg) if isinstance(arg, tuple) else arg


def _argument(call: Call, position: int, name: str) -> Any:
    return call.args[position] if position < len(call.args) else dict(call.kwargs)[name]


def _in_groups(call: Call, groups: int) -> Call:
    if len(call.args) > _GROUPS:
        return replace(call, args=(*call.args[:_GROUPS], groups, *call.args[_GROUPS + 1 :]))
    kwargs = tuple((name, groups if name == "groups" else value) for name, value in call.kwargs)
    return replace(call, kwargs=kwargs)
