"""Walk an exported program once and collect its layers.

Every call either starts a layer, trails the layer whose output only it reads, renames channels, or is placed whole.
"""

import operator
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind
from torch.fx import Node
from torch.fx.node import map_arg
from torch.utils.flop_counter import FlopCounterMode

from hyperplace.errors import ModelError
from hyperplace.steps.capture.aliases import is_in_place, op_name, refuse_shared_write
from hyperplace.steps.capture.rules import Anchor, Follows, Moved, Site, State, channel_rule
from hyperplace.steps.capture.views import Unsplittable, View
from hyperplace.values.graph import Call, Graph, Layer, Operand, Parameter, Reads, Ref, Rule, Source

_IGNORED = ("_assert", "sym_constrain", "_assert_tensor_metadata", "_assert_scalar")


@dataclass
class _Draft:
    """A layer while calls are still being added to it."""

    name: str
    kind: str
    rule: Rule
    num_filters: int
    operands: tuple[Operand, ...]
    anchor_bytes: int
    anchor: Anchor | None = None
    reason: str = ""
    out_bytes: int = 0
    shape: tuple[int, ...] = ()
    saved_bytes: int = 0
    whole_macs: int = 0  # for all rows, counted where no rule knows them
    calls: list[Call] = field(default_factory=list)
    num_anchor_calls: int = 0
    result_bytes: dict[int, int] = field(default_factory=dict)  # of those of several that are read
    state: dict[str, None] = field(default_factory=dict)  # parameters and buffers, in order of use


class Tracer:
    """Collect the layers of one exported program; `graph()` is the answer."""

    def __init__(self, program: ExportedProgram, rows: int, saved: dict[str, int]) -> None:
        self._program = program
        self._saved = saved  # bytes kept for the backward pass, by call
        self._rows = rows
        self._values: dict[Node, Any] = {}  # View, State, a tuple of Views, or a constant
        self._prologue: dict[Node, tuple[Call, ...]] = {}  # the calls that compute a State
        self._shuffles: dict[Node, tuple[Node, ...]] = {}  # the calls since a shuffle began, up to this one
        self._writes: dict[Node, Call] = {}  # calls that only change a buffer, such as a counter, not yet in a layer
        self._drafts: dict[str, _Draft] = {}
        self._parameters: dict[str, Parameter] = {}
        self._outputs: tuple[Operand, ...] = ()

    def graph(self) -> Graph:
        inputs = {spec.arg.name: spec for spec in self._program.graph_signature.input_specs}
        for node in self._program.graph.nodes:
            if node.op == "placeholder":
                self._placeholder(node, inputs[node.name])
            elif node.op == "call_function":
                self._call(node)
            elif node.op == "output":
                self._output(node)
        self._refuse_shared_parameters()
        return Graph(tuple(self._finished(d) for d in self._drafts.values()), self._outputs, self._rows)

    def _placeholder(self, node: Node, spec: Any) -> None:
        if spec.kind is not InputKind.USER_INPUT:
            trained = spec.kind is InputKind.PARAMETER and _tensor(node).requires_grad
            shape = _shape(node)
            name = spec.target
            self._keep(node, State(shape, name, (name,) if trained else ()))
            self._parameters[name] = Parameter(name, shape, _num_bytes(node), trained)
        elif isinstance(node.meta.get("val"), torch.Tensor):
            shape = _shape(node)
            num_filters = shape[1] if len(shape) > 1 else 1
            draft = _Draft(node.name, "input", Rule.INPUT, num_filters, (), 0, out_bytes=_num_bytes(node), shape=shape)
            self._drafts[node.name] = draft
            self._keep(node, self._output_of(draft, node))

    def _call(self, node: Node) -> None:
        op = op_name(node)
        if node.target is operator.getitem:
            self._keep(node, self._element(node))
            return
        if op in _IGNORED or not (node.users or is_in_place(node)):
            return
        if not hasattr(node.target, "_schema"):
            raise ModelError(
                f"the model runs a nested program ({op}), which cannot be placed; "
                "take torch.no_grad, autocast or spectral norm out of its forward"
            )
        operands = [n for n in node.all_input_nodes if isinstance(self._values.get(n), View | tuple)]
        if operands:
            self._data_call(node, op, operands)
        else:
            self._state_call(node)
            if is_in_place(node) and not node.users:
                self._writes[node] = self._prologue[node][-1]
        if is_in_place(node) and isinstance(node.args[0], Node):
            refuse_shared_write(node)
            # Whoever reads the argument from now on reads the result.
            self._values[node.args[0]] = self._values[node]
            self._prologue[node.args[0]] = self._prologue.get(node, ())

    def _keep(self, node: Node, value: Any) -> None:
        """Remember a value under its name in the captured program."""
        named = isinstance(value, View | State)
        self._values[node] = replace(value, value=node.name) if named else value

    def _element(self, node: Node) -> Any:
        producer, position = node.args
        assert isinstance(producer, Node)
        assert isinstance(position, int)
        whole = self._values[producer]
        if not isinstance(whole, tuple):
            return whole
        draft = self._drafts[whole[position].sources[0].layer]
        if draft.calls and draft.calls[-1].value == producer.name and node.users:
            draft.result_bytes[position] = _num_bytes(node)
        return whole[position]

    def _state_call(self, node: Node) -> None:
        """Remember a value computed from parameters alone; the layer that reads it computes it."""
        states = [self._values[n] for n in node.all_input_nodes if isinstance(self._values.get(n), State)]
        trained = tuple(dict.fromkeys(name for state in states for name in state.trained))
        self._keep(node, State(_shape(node), "", trained))
        before = [call for n in node.all_input_nodes for call in self._prologue.get(n, ())]
        self._prologue[node] = (*dict.fromkeys(before), self._recorded(node))

    def _data_call(self, node: Node, op: str, operands: list[Node]) -> None:
        try:
            outcome = channel_rule(self._site(node, op.rstrip("_")))
        except Unsplittable as reason:
            ended = [self._end_shuffle(operand) for operand in operands]
            if any(ended):
                self._data_call(node, op, operands)  # a rule may fit now
            else:
                self._keep(node, self._whole(node, operands, str(reason)))
            return
        match outcome:
            case Moved():
                self._keep(node, self._moved(node, outcome))
            case Follows():
                self._keep(node, self._followed(node, operands[0], outcome))
            case Anchor():
                self._keep(node, self._anchored(node, outcome))

    def _site(self, node: Node, op: str) -> Site:
        schema = node.target._schema  # type: ignore[union-attr]
        args: dict[str, Any] = {a.name: a.default_value for a in schema.arguments if a.has_default_value()}
        args |= dict(zip((a.name for a in schema.arguments), node.args, strict=False)) | node.kwargs
        shapes = tuple(_shape_of(v) for v in _tensors(node))
        values = {name: self._resolved(arg) for name, arg in args.items()}
        return Site(op, values, shapes[0] if shapes else (), shapes)

    def _resolved(self, arg: Any) -> Any:
        if isinstance(arg, Node):
            return self._values.get(arg)
        if isinstance(arg, list | tuple):
            return tuple(self._resolved(a) for a in arg)
        return arg

    def _moved(self, node: Node, outcome: Moved) -> View | tuple[View, ...]:
        producer = node.args[0]
        if outcome.may_trail and isinstance(producer, Node) and outcome.views[0].channel_dims == 1:
            draft = self._sole_reader(producer)
            if draft:
                return self._trail(draft, node)
        if isinstance(producer, Node) and outcome.views[0].channel_dims > 1:
            self._shuffles[node] = (*self._shuffles.get(producer, ()), node)
        return outcome.views if len(_tensors(node)) > 1 or isinstance(node.meta["val"], list) else outcome.views[0]

    def _end_shuffle(self, node: Node) -> bool:
        """Place the begun shuffle behind a value whole, for readers that want it half done; say if there was one."""
        view = self._values[node]
        if not isinstance(view, View) or view.channel_dims == 1:
            return False
        first, *others = self._shuffles[node]
        operands = [self._values[n] for n in first.all_input_nodes]
        reads = tuple(Operand(v.value, v.shape, v.sources, Reads.ALL) for v in operands if isinstance(v, View))
        draft = self._draft(first, Rule.WHOLE, 1, reads)
        draft.reason = "its reshape splits channels, as half a channel shuffle does"
        for call in others:
            self._record(draft, call)
        self._keep(node, self._output_of(draft, node))
        return True

    def _followed(self, node: Node, operand: Node, outcome: Follows) -> View:
        draft = self._sole_reader(operand)
        if draft:
            return self._trail(draft, node)
        return self._anchored(node, Anchor(Rule.CHANNELWISE, ((outcome.operand, Reads.SAME),)))

    def _sole_reader(self, producer: Node) -> _Draft | None:
        """Return the layer whose untouched output this is, if nobody else reads it and it is not an input."""
        view = self._values[producer]
        layer = view.layer if isinstance(view, View) and len(producer.users) == 1 else None
        draft = self._drafts[layer] if layer else None
        return draft if draft and draft.rule is not Rule.INPUT else None

    def _trail(self, draft: _Draft, node: Node) -> View:
        self._record(draft, node)
        return self._output_of(draft, node)

    def _anchored(self, node: Node, anchor: Anchor) -> View:
        reads = tuple(Operand(v.value, v.shape, v.sources, r) for v, r in anchor.operands)
        draft = self._draft(node, anchor.rule, _shape(node)[1], reads)
        draft.anchor = anchor
        return self._output_of(draft, node)

    def _whole(self, node: Node, operands: list[Node], reason: str) -> View | tuple[View, ...]:
        draft = self._sole_reader(operands[0]) if len(operands) == 1 else None
        if not draft or draft.rule is not Rule.WHOLE:
            views = dict.fromkeys(v for n in operands for v in _flat(self._values[n]))
            reads = tuple(Operand(v.value, v.shape, v.sources, Reads.ALL) for v in views)
            draft = self._draft(node, Rule.WHOLE, 1, reads)
            draft.reason = reason
        else:
            self._record(draft, node)
        draft.whole_macs += _counted_macs(node)
        if isinstance(node.meta["val"], torch.Tensor):
            return self._output_of(draft, node)
        results = [self._view_of(draft, _shape_of(v), None) for v in _tensors(node)]
        return tuple(replace(v, sources=(replace(v.sources[0], result=i),)) for i, v in enumerate(results))

    def _draft(self, node: Node, rule: Rule, num_filters: int, operands: tuple[Operand, ...]) -> _Draft:
        name = self._layer_name(node)
        draft = _Draft(name, op_name(node).rstrip("_"), rule, num_filters, operands, _num_bytes(node))
        self._drafts[name] = draft
        self._record(draft, node)
        draft.num_anchor_calls = len(draft.calls)
        return draft

    def _layer_name(self, node: Node) -> str:
        """Name a layer by the module that calls it, or by its module's path and the operation."""
        stack = list((node.meta.get("nn_module_stack") or {}).values())
        path, kind = stack[-1] if stack else ("", "")
        path = path.split("@")[0]
        op = op_name(node).strip("_")
        name = path if path and str(kind).startswith("torch.nn.modules.") else f"{path}.{op}".strip(".")
        number, unique = 1, name
        while unique in self._drafts:
            number += 1
            unique = f"{name}#{number}"
        return unique

    def _record(self, draft: _Draft, node: Node) -> None:
        """Add a call, with whatever it takes to compute its parameters, to the layer."""
        for write in [write for write in self._writes if _module(write) == _module(node)]:
            call = self._writes.pop(write)
            draft.state.update(dict.fromkeys(_state_names((call,))))
            draft.calls.append(call)
        for argument in node.all_input_nodes:
            value = self._values.get(argument)
            if isinstance(value, State):
                prologue = self._prologue.get(argument, ())
                draft.state.update(dict.fromkeys(_state_names(prologue) if prologue else [value.name]))
                draft.calls += [call for call in prologue if call not in draft.calls]
        draft.calls.append(self._recorded(node))
        draft.out_bytes = sum(_tensor_bytes(v) for v in _tensors(node))
        draft.shape = _shape(node)
        draft.saved_bytes += self._saved.get(node.name, 0)

    def _recorded(self, node: Node) -> Call:
        args = tuple(self._constant(arg) for arg in node.args)
        kwargs = tuple((name, self._constant(arg)) for name, arg in node.kwargs.items())
        shapes = [_shape_of(v) for v in _tensors(node)]
        return Call(node.name, str(node.target), args, kwargs, shapes[0] if shapes else ())

    def _constant(self, arg: Any) -> Any:
        if isinstance(arg, Node):
            value = self._values.get(arg)
            if isinstance(value, State) and value.name:
                return Ref(value.name, True)
            return Ref(value.value if isinstance(value, View | State) else arg.name)
        if isinstance(arg, list | tuple):
            return tuple(self._constant(a) for a in arg)
        return arg if arg is None or isinstance(arg, bool | int | float | str) else str(arg)

    def _output_of(self, draft: _Draft, node: Node) -> View:
        return self._view_of(draft, _shape(node), draft.name)

    def _view_of(self, draft: _Draft, shape: tuple[int, ...], layer: str | None) -> View:
        has_rows = len(shape) > 1 and shape[0] == self._rows
        width = shape[1] // draft.num_filters if has_rows else 1
        return View(shape, (Source(draft.name, 0, draft.num_filters, width),), layer, has_rows=has_rows)

    def _output(self, node: Node) -> None:
        for value in node.all_input_nodes:
            if value in self._shuffles:
                self._end_shuffle(value)
        returned: list[Node] = []  # all_input_nodes would leave out what is returned once more
        map_arg(node.args, returned.append)
        self._outputs = tuple(
            Operand(view.value, view.shape, view.sources, Reads.ALL)
            for n in returned
            for view in _flat(self._values.get(n))
        )

    def _refuse_shared_parameters(self) -> None:
        owner: dict[str, str] = {}
        for draft in self._drafts.values():
            for name in draft.state:
                if self._parameters[name].trained and owner.setdefault(name, draft.name) != draft.name:
                    raise ModelError(
                        f"layers {owner[name]} and {draft.name} share the parameter {name}; "
                        "a shared parameter cannot be placed: give each layer its own"
                    )

    def _finished(self, draft: _Draft) -> Layer:
        anchor = draft.anchor or Anchor(draft.rule, ())
        per_filter = self._rows * draft.num_filters
        return Layer(
            name=draft.name,
            kind=draft.kind,
            rule=draft.rule,
            num_filters=draft.num_filters,
            map_bytes=-(-(sum(draft.result_bytes.values()) or draft.out_bytes) // per_filter),
            shape=draft.shape,
            results=tuple(sorted(draft.result_bytes)),
            operands=draft.operands,
            groups=anchor.groups,
            partial_bytes=-(-draft.anchor_bytes // per_filter),
            saved_bytes=-(-draft.saved_bytes // per_filter),
            macs=draft.whole_macs // self._rows if draft.rule is Rule.WHOLE else anchor.macs,
            sums_channels=anchor.sums_channels,
            parameters=tuple(self._parameters[name] for name in draft.state),
            calls=tuple(draft.calls),
            num_anchor_calls=draft.num_anchor_calls,
            reason=draft.reason,
        )


def _module(node: Node) -> str:
    """Return the path of the module whose forward makes the call."""
    stack = list((node.meta.get("nn_module_stack") or {}).values())
    return str(stack[-1][0]) if stack else ""


def _state_names(calls: tuple[Call, ...]) -> list[str]:
    """Return the parameters and buffers that some calls read."""
    args = [arg for call in calls for arg in (*call.args, *(value for _, value in call.kwargs))]
    flat = [inner for arg in args for inner in (arg if isinstance(arg, tuple) else (arg,))]
    return [ref.name for ref in flat if isinstance(ref, Ref) and ref.is_state]


def _counted_macs(node: Node) -> int:
    """Count the multiply-adds of any call by running it on its fake tensors under torch's own counter."""
    args, kwargs = map_arg((node.args, node.kwargs), lambda n: n.meta["val"])
    with FlopCounterMode(display=False) as counter:
        node.target(*args, **kwargs)  # type: ignore[operator]
    return int(counter.get_total_flops()) // 2


def _flat(value: Any) -> tuple[View, ...]:
    if isinstance(value, View):
        return (value,)
    return tuple(v for v in value if isinstance(v, View)) if isinstance(value, tuple) else ()


def _tensor(node: Node) -> torch.Tensor:
    value: torch.Tensor = node.meta["val"]
    return value


def _tensors(node: Node) -> list[torch.Tensor]:
    value = node.meta.get("val")
    values = value if isinstance(value, list | tuple) else [value]
    return [v for v in values if isinstance(v, torch.Tensor)]


def _shape(node: Node) -> tuple[int, ...]:
    tensors = _tensors(node)
    return _shape_of(tensors[0]) if tensors else ()


def _shape_of(tensor: torch.Tensor) -> tuple[int, ...]:
    return tuple(int(side) for side in tensor.shape)


def _num_bytes(node: Node) -> int:
    return sum(_tensor_bytes(v) for v in _tensors(node))


def _tensor_bytes(tensor: torch.Tensor) -> int:
    return prod(_shape_of(tensor)) * tensor.element_size()
