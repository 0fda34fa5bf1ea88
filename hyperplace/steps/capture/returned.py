"""What a model takes and returns: tensors in lists, tuples and dicts, with constants between them."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import ConstantArgument, InputKind
from torch.fx import Node
from torch.utils._pytree import tree_unflatten

from hyperplace.errors import ModelError
from hyperplace.steps.capture.book import Book, operand
from hyperplace.steps.capture.rules import State
from hyperplace.steps.capture.sizes import is_number, type_of
from hyperplace.steps.capture.views import View
from hyperplace.values.graph import Operand, Reads, Ref, Rule


@dataclass(frozen=True)
class Returned:
    """The model's outputs, and how they are put together; tensors are Refs to their numbers."""

    operands: tuple[Operand, ...] = ()
    structure: Any = None
    takes: Any = None

    @classmethod
    def of(cls, book: Book, node: Node, program: ExportedProgram) -> "Returned":
        """Return what the output node of a program says."""
        operands: list[Operand] = []
        leaves = [_leaf(book, leaf, operands) for leaf in _user_outputs(node, program)]
        if not operands:
            raise ModelError("the model returns no tensor, so there is nothing to train")
        return cls(tuple(operands), _plain(tree_unflatten(leaves, program.call_spec.out_spec)), _taken(program))


def _user_outputs(node: Node, program: ExportedProgram) -> list[Any]:
    kinds = [spec.kind.name for spec in program.graph_signature.output_specs]
    return [leaf for leaf, kind in zip(node.args[0], kinds, strict=True) if kind == "USER_OUTPUT"]  # type: ignore[arg-type]


def _leaf(book: Book, leaf: Any, operands: list[Operand]) -> Any:
    """Return one thing that the model returns; a tensor is entered as an output."""
    if not isinstance(leaf, Node):
        return leaf
    if is_number(leaf):
        raise ModelError(f"the model returns a number of its rows ({leaf.name}); return tensors and constants")
    value = book.values[leaf]
    view = value if isinstance(value, View) else _layer_of(book, leaf, value)
    operands.append(operand(view, Reads.ALL))
    return Ref(str(len(operands) - 1))


def _layer_of(book: Book, node: Node, state: State) -> View:
    """Make a layer of a value that does not depend on the input, so that somebody computes it."""
    source = next(view for view in book.values.values() if isinstance(view, View))
    draft = book.blank(node, Rule.WHOLE, 1, (operand(source, Reads.ALL),))
    draft.reason = "it does not depend on the input"
    book.record_state(draft, node)
    name = f"{node.name}_returned"
    tensor = node.meta["val"]
    draft.calls.append(book.cloned(name, book.call_argument(node), tensor))
    draft.num_anchor_calls, draft.result_values = len(draft.calls), (name,)
    draft.shape, draft.has_rows, draft.type = state.shape, book.has_rows(tensor), type_of(tensor)
    draft.couples_rows = True  # it counts once for a mini-batch, however many pieces that is cut into
    draft.out_bytes = draft.anchor_bytes
    return replace(book.view_of(draft, tensor, draft.name), value=name)


def _taken(program: ExportedProgram) -> Any:
    """Return the positional and keyword arguments as they are given."""
    specs = [s for s in program.graph_signature.input_specs if s.kind is InputKind.USER_INPUT]
    leaves: list[Any] = []
    number = 0
    for spec in specs:
        if isinstance(spec.arg, ConstantArgument):
            leaves.append(spec.arg.value)
        else:
            leaves.append(Ref(str(number)))
            number += 1
    args, kwargs = tree_unflatten(leaves, program.call_spec.in_spec)
    return _plain(args), _plain(kwargs)


def _plain(value: Any) -> Any:
    """Return a structure of plain lists, tuples and dicts; a named tuple is a tuple."""
    if isinstance(value, Mapping):
        if not all(isinstance(key, str | int) for key in value):
            raise ModelError(f"the model takes or returns a dict with keys {list(value)}; use text")
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_plain(one) for one in value]
    if isinstance(value, tuple):
        return tuple(map(_plain, value))
    if value is None or isinstance(value, Ref | bool | int | float | str | torch.dtype):
        return value
    raise ModelError(f"the model takes or returns a {type(value).__name__}; use tensors in lists, tuples and dicts")
