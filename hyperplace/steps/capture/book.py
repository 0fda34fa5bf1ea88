"""What is known of a captured program so far: the values of nodes, drafts of layers, and how calls get into them."""

from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch.fx import Node

from hyperplace.steps.capture.aliases import op_name
from hyperplace.steps.capture.export import WITHIN
from hyperplace.steps.capture.nodes import module_of, shape_made, state_names, tensors_of
from hyperplace.steps.capture.rules import Anchor, State
from hyperplace.steps.capture.schemas import schema_of
from hyperplace.steps.capture.sizes import Bytes, bytes_of, dtype_of, has_rows, is_number, number_of, shape_of, type_of
from hyperplace.steps.capture.views import View
from hyperplace.values.call import couples_rows
from hyperplace.values.graph import Call, Layer, Operand, Parameter, Reads, Ref, Rule, Source, TensorType


@dataclass
class Draft:
    """What is known of a layer so far; multiply-adds are for all rows of the sample."""

    name: str
    kind: str
    rule: Rule
    num_filters: int
    operands: tuple[Operand, ...]
    anchor_bytes: Bytes
    anchor: Anchor | None = None
    reason: str = ""
    out_bytes: Bytes = field(default_factory=Bytes)
    shape: tuple[int, ...] = ()
    has_rows: bool = True
    couples_rows: bool = False
    saved_bytes: int = 0  # of one row
    whole_macs: int = 0  # counted where no rule knows them
    calls: list[Call] = field(default_factory=list)
    num_anchor_calls: int = 0
    type: TensorType | None = None  # of what it makes
    result_bytes: dict[int, Bytes] = field(default_factory=dict)  # of those of several that are read
    result_types: dict[int, TensorType] = field(default_factory=dict)
    result_values: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    state: dict[str, None] = field(default_factory=dict)  # parameters and buffers, in order of use

    def finished(self, parameters: dict[str, Parameter], rows: int) -> Layer:
        """Return the layer, with all that scales for one row."""
        anchor = self.anchor or Anchor(self.rule, ())
        made = sum(self.result_bytes.values(), Bytes()) if self.result_bytes else self.out_bytes
        return Layer(
            name=self.name,
            kind=self.kind,
            rule=self.rule,
            num_filters=self.num_filters,
            map_bytes=-(-made.per_row // self.num_filters),
            fixed_bytes=made.fixed,
            shape=self.shape,
            results=tuple(sorted(self.result_bytes)),
            operands=self.operands,
            groups=anchor.groups,
            partial_bytes=-(-self.anchor_bytes.per_row // self.num_filters),
            saved_bytes=-(-self.saved_bytes // self.num_filters),
            macs=self.whole_macs // rows if self.rule is Rule.WHOLE else anchor.macs,
            sums_channels=anchor.sums_channels,
            parameters=tuple(parameters[name] for name in self.state),
            calls=tuple(self.calls),
            num_anchor_calls=self.num_anchor_calls,
            reason=self.reason,
            has_rows=self.has_rows,
            couples_rows=self.couples_rows or any(map(couples_rows, self.calls)),
            result_values=self.result_values,
            writes=self.writes,
            makes=tuple(self.result_types[number] for number in sorted(self.result_types)) or self._types(),
        )

    def _types(self) -> tuple[TensorType, ...]:
        return (self.type,) if self.type else ()


class Book:
    """The values and layers of one program."""

    def __init__(self, rows: int, *, has_fixed_rows: bool, saved: dict[str, int]) -> None:
        self.rows = rows  # of the sample
        self.values: dict[Node, Any] = {}  # View, State, a tuple of Views, or a constant
        self.prologue: dict[Node, tuple[Call, ...]] = {}  # the calls that compute a State
        self.drafts: dict[str, Draft] = {}
        self.parameters: dict[str, Parameter] = {}
        self.learning: set[str] = set()  # parameters that the optimizer gets
        self.counters: dict[Node, Call] = {}  # calls that only change a buffer of their own, not yet in a layer
        self._fixed_rows = rows if has_fixed_rows else None
        self._saved = saved  # bytes kept for the backward pass, by call

    def keep(self, node: Node, value: Any) -> None:
        """Remember a value under its name in the captured program."""
        named = isinstance(value, View | State)
        self.values[node] = replace(value, value=node.name) if named else value

    def is_data(self, node: Node) -> bool:
        """Say whether a node depends on the model's inputs."""
        return isinstance(self.values.get(node), View | tuple)

    def has_rows(self, tensor: torch.Tensor) -> bool:
        return has_rows(tensor, self._fixed_rows)

    def bytes_made(self, node: Node) -> Bytes:
        """Return the bytes of all tensors a node makes."""
        fixed = self._fixed_rows is not None
        return sum((bytes_of(tensor, self.rows, has_fixed_rows=fixed) for tensor in tensors_of(node)), Bytes())

    def draft(self, node: Node, rule: Rule, num_filters: int, operands: tuple[Operand, ...]) -> Draft:
        """Begin a layer with a call."""
        draft = self.blank(node, rule, num_filters, operands)
        self.record(draft, node)
        draft.num_anchor_calls = len(draft.calls)
        return draft

    def blank(self, node: Node, rule: Rule, num_filters: int, operands: tuple[Operand, ...]) -> Draft:
        """Begin a layer that is named after a call."""
        name = self._layer_name(node)
        draft = Draft(name, op_name(node).rstrip("_"), rule, num_filters, operands, self.bytes_made(node))
        self.drafts[name] = draft
        return draft

    def _layer_name(self, node: Node) -> str:
        """Name a layer by the module that calls it, or by its module's path and the operation."""
        path, kind = module_of(node)
        path, op = path.split("@")[0], op_name(node).strip("_")
        name = path if path and kind.startswith("torch.nn.modules.") else f"{path}.{op}".strip(".")
        number, unique = 1, name
        while unique in self.drafts:
            number += 1
            unique = f"{name}#{number}"
        return unique

    def record(self, draft: Draft, node: Node) -> None:
        """Add a call, with whatever it takes to compute its parameters, to the layer."""
        for counter in [counter for counter in self.counters if module_of(counter) == module_of(node)]:
            self.record_counter(draft, counter)
        for argument in node.all_input_nodes:
            self.record_state(draft, argument)
        draft.calls.append(self.call(node))
        draft.out_bytes = self.bytes_made(node)
        draft.shape = shape_made(node)
        draft.type = next((type_of(tensor) for tensor in tensors_of(node)), None)
        draft.has_rows = all(map(self.has_rows, tensors_of(node)))
        draft.saved_bytes += self._saved.get(node.name, 0)

    def record_counter(self, draft: Draft, counter: Node) -> None:
        """Add a call that only changes a buffer to a layer."""
        call = self.counters.pop(counter)
        draft.state.update(dict.fromkeys(state_names((call,))))
        draft.calls.append(call)

    def record_state(self, draft: Draft, node: Node) -> None:
        """Add what computes a value from parameters, if it is such a one, to the layer."""
        value = self.values.get(node)
        if isinstance(value, State):
            prologue = self.prologue.get(node, ())
            draft.state.update(dict.fromkeys(state_names(prologue) if prologue else [value.name]))
            draft.calls += [call for call in prologue if call not in draft.calls]

    def call(self, node: Node, renamed: dict[Node, Ref] | None = None) -> Call:
        """Return a node as a call; `renamed` are arguments that have another name where it is run."""
        args = tuple(self._constant(arg, renamed or {}) for arg in node.args)
        kwargs = tuple((name, self._constant(arg, renamed or {})) for name, arg in node.kwargs.items())
        tensors = tensors_of(node)
        op = "getitem" if op_name(node) == "getitem" else str(node.target)
        whole = bool(tensors) and all(map(self.has_rows, tensors))
        return Call(
            node.name,
            op,
            args,
            kwargs,
            shape_made(node),
            whole,
            node.meta.get(WITHIN, ()),
            next(map(dtype_of, tensors), ""),
            schema_of(op),
        )

    def cloned(self, name: str, source: Ref, tensor: torch.Tensor) -> Call:
        """Return the call that copies a value under a name of its own."""
        op = "aten.clone.default"
        shape, dtype = shape_of(tensor), dtype_of(tensor)
        return Call(name, op, (source,), (), shape, self.has_rows(tensor), dtype=dtype, schema=schema_of(op))

    def _constant(self, arg: Any, renamed: dict[Node, Ref]) -> Any:
        if is_number(arg):
            return number_of(arg)
        if isinstance(arg, Node):
            return renamed[arg] if arg in renamed else self.call_argument(arg)
        if isinstance(arg, list | tuple):
            return tuple(self._constant(a, renamed) for a in arg)
        return arg if arg is None or isinstance(arg, bool | int | float | str | complex) else str(arg)

    def call_argument(self, node: Node) -> Any:
        """Return how a call names a value: by its layer's operand, its parameter, or as a number."""
        value = self.values.get(node)
        if isinstance(value, State) and value.name:
            return Ref(value.name, True)
        return Ref(value.value if isinstance(value, View | State) else node.name)

    def output_of(self, draft: Draft, node: Node) -> View:
        """Return what a layer has just made as a value."""
        return self.view_of(draft, tensors_of(node)[0], draft.name)

    def view_of(self, draft: Draft, tensor: torch.Tensor, layer: str | None) -> View:
        """Return a tensor that a layer makes as a value; `layer` where that is all the layer makes."""
        shape, whole = shape_of(tensor), self.has_rows(tensor)
        width = shape[1] // draft.num_filters if whole else 1
        return View(shape, (Source(draft.name, 0, draft.num_filters, width),), layer, has_rows=whole)


def operand(view: View, reads: Reads) -> Operand:
    """Return a value as an operand of a layer."""
    return Operand(view.value, view.shape, view.sources, reads, view.has_rows)


def flat_views(value: Any) -> tuple[View, ...]:
    """Return the values that depend on the input."""
    if isinstance(value, View):
        return (value,)
    return tuple(v for v in value if isinstance(v, View)) if isinstance(value, tuple) else ()
