"""Walk an exported program once and collect its layers.

Every call either starts a layer, trails the layer whose output only it reads, renames channels, or is placed whole.
"""

import operator
from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import Any

import torch
from torch.export.graph_signature import InputKind
from torch.fx import Node

from hyperplace.errors import ModelError
from hyperplace.steps.capture.aliases import is_in_place, op_name, tracked, viewed
from hyperplace.steps.capture.book import Book, Draft, flat_views, operand
from hyperplace.steps.capture.export import NO_GRAD, Exported
from hyperplace.steps.capture.nodes import counted_macs, shape_made, state_bytes, tensors_of
from hyperplace.steps.capture.regional import add_region
from hyperplace.steps.capture.regions import units
from hyperplace.steps.capture.returned import Returned
from hyperplace.steps.capture.rowwise import keeps_rows_apart
from hyperplace.steps.capture.rules import Anchor, Follows, Moved, Site, State, channel_rule
from hyperplace.steps.capture.sizes import (
    Bytes,
    dtype_of,
    is_number,
    number_of,
    refuse_unknown_sizes,
    shape_of,
    type_of,
)
from hyperplace.steps.capture.views import Unsplittable, View
from hyperplace.values.graph import Call, Graph, Parameter, Reads, Rule

_IGNORED = ("_assert", "sym_constrain", "_assert_tensor_metadata", "_assert_scalar")
_STATE = (InputKind.PARAMETER, InputKind.BUFFER)
_LARGEST_CONSTANT = 2**16  # elements; a larger one does not belong into a program's text


class Tracer:
    """Collect the layers of one exported program; `graph()` is the answer."""

    def __init__(self, exported: Exported, rows: int, saved: dict[str, int], tied: Collection[str]) -> None:
        self._exported, self._program = exported, exported.program
        self._tied = tied  # parameters that several layers use, each of which is placed whole
        has_fixed_rows = exported.fewest_rows == exported.most_rows
        self._book = Book(rows, has_fixed_rows=has_fixed_rows, saved=saved)
        self._values, self._drafts = self._book.values, self._book.drafts
        self._shuffles: dict[Node, tuple[Node, ...]] = {}  # the calls since a shuffle began, up to this one

    def graph(self) -> Graph:
        inputs = {spec.arg.name: spec for spec in self._program.graph_signature.input_specs}
        nodes = self._program.graph.nodes
        buffers = {n for n in nodes if n.op == "placeholder" and inputs[n.name].kind in _STATE}
        returned = Returned()
        for unit in units(self._program.graph, buffers):
            if isinstance(unit, tuple):
                self._end_shuffles(n for node in unit for n in node.all_input_nodes)
                add_region(self._book, unit)
            elif unit.op == "placeholder":
                self._placeholder(unit, inputs[unit.name])
            elif unit.op == "call_function":
                self._call(unit)
            elif unit.op == "output":
                self._end_shuffles(unit.all_input_nodes)
                returned = Returned.of(self._book, unit, self._program)
        layers = tuple(draft.finished(self._book.parameters, self._book.rows) for draft in self._drafts.values())
        return Graph(
            layers,
            returned.operands,
            self._book.rows,
            returned.structure,
            takes=returned.takes,
            fewest_rows=self._exported.fewest_rows,
            most_rows=self._exported.most_rows,
        )

    def shared_parameters(self) -> list[str]:
        """Return the trained parameters that several layers use."""
        users: dict[str, set[str]] = {}
        for draft in self._drafts.values():
            for name in draft.state:
                users.setdefault(name, set()).add(draft.name)
        return [name for name, found in users.items() if len(found) > 1 and self._book.parameters[name].trained]

    def _placeholder(self, node: Node, spec: Any) -> None:
        if spec.kind is InputKind.CONSTANT_TENSOR:
            self._constant(node, spec.target)
        elif spec.kind in _STATE:
            (tensor,), shape, name = tensors_of(node), shape_made(node), spec.target
            trained = spec.kind is InputKind.PARAMETER and tensor.requires_grad
            self._book.learning |= {name} if trained else set()
            trained = trained and _has_gradient(node)
            self._book.keep(node, State(shape, name, (name,) if trained else ()))
            self._book.parameters[name] = Parameter(name, shape, state_bytes(node), trained, dtype_of(tensor))
        elif spec.kind is not InputKind.USER_INPUT:
            raise ModelError(f"the model holds {spec.target}, a {spec.kind.name.lower()}, which cannot be placed")
        elif isinstance(node.meta.get("val"), torch.Tensor):
            shape = shape_made(node)
            num_filters = shape[1] if len(shape) > 1 else 1
            made = self._book.bytes_made(node)
            draft = Draft(node.name, "input", Rule.INPUT, num_filters, (), Bytes(), out_bytes=made, shape=shape)
            (tensor,) = tensors_of(node)
            draft.has_rows, draft.type = self._book.has_rows(tensor), type_of(tensor)
            self._drafts[node.name] = draft
            self._book.keep(node, self._book.output_of(draft, node))

    def _constant(self, node: Node, name: str) -> None:
        """Remember a tensor that the model's code makes of numbers, as the call that makes it."""
        tensor = self._program.constants[name]
        if tensor.numel() > _LARGEST_CONSTANT:
            raise ModelError(
                f"the model's forward makes a tensor of {tensor.numel():,} numbers; register it as a buffer"
            )
        values = tuple(tensor.flatten().tolist())
        self._book.keep(node, State(shape_of(tensor)))
        made = (values, shape_of(tensor), str(tensor.dtype))
        call = Call(node.name, "constant", made, (), shape_of(tensor), False, dtype=dtype_of(tensor))
        self._book.prologue[node] = (call,)

    def _call(self, node: Node) -> None:
        op = op_name(node)
        refuse_unknown_sizes(node)
        if node.target is operator.getitem and self._book.is_data(node.all_input_nodes[0]):
            self._book.keep(node, self._element(node))
            return
        if op in _IGNORED or is_number(node) or not (node.users or is_in_place(node) or tracked(node)):
            return
        if not hasattr(node.target, "_schema") and node.target is not operator.getitem:
            raise ModelError(f"the model runs a nested program ({op}), which cannot be placed; take it out of forward")
        operands = [n for n in node.all_input_nodes if self._book.is_data(n)]
        if operands:
            self._data_call(node, op, operands)
        else:
            self._state_call(node)
        if is_in_place(node) and isinstance(node.args[0], Node):
            # Whoever reads the argument from now on reads the result.
            self._values[node.args[0]] = self._values[node]
            self._book.prologue[node.args[0]] = self._book.prologue.get(node, ())

    def _element(self, node: Node) -> Any:
        producer, position = node.args
        assert isinstance(producer, Node)
        assert isinstance(position, int)
        whole = self._values[producer]
        if not isinstance(whole, tuple):
            return whole
        draft = self._drafts[whole[position].sources[0].layer]
        if draft.calls and draft.calls[-1].value == producer.name and node.users:
            draft.result_bytes[position] = self._book.bytes_made(node)
            (tensor,) = tensors_of(node)
            draft.result_types[position] = type_of(tensor)
        return whole[position]

    def _state_call(self, node: Node) -> None:
        """Remember a value computed from parameters alone; the layer that reads it computes it."""
        before = [call for n in node.all_input_nodes for call in self._book.prologue.get(n, ())]
        call = self._book.call(node)
        if is_in_place(node) and not node.users:
            self._book.counters[node] = call
        states = [v for n in node.all_input_nodes if isinstance(v := self._values.get(n), State)]
        trained = tuple(dict.fromkeys(name for state in states for name in state.trained))
        self._book.keep(node, State(shape_made(node), "", trained))
        self._book.prologue[node] = (*dict.fromkeys(before), call)

    def _data_call(self, node: Node, op: str, operands: list[Node]) -> None:
        try:
            self._refuse_to_split(node)
            outcome = channel_rule(self._site(node, op.rstrip("_")))
        except Unsplittable as reason:
            if self._end_shuffles(operands):
                self._data_call(node, op, operands)  # a rule may fit now
            else:
                self._book.keep(node, self._whole(node, operands, str(reason)))
            return
        match outcome:
            case Moved(views=(view,)) if view is self._values[operands[0]]:
                self._values[node] = view if self._sole_reader(operands[0]) else replace(view, layer=None)
            case Moved():
                self._book.keep(node, self._moved(node, outcome))
            case Follows():
                self._book.keep(node, self._followed(node, operands[0], outcome))
            case Anchor():
                self._book.keep(node, self._anchored(node, outcome))

    def _refuse_to_split(self, node: Node) -> None:
        """Place a call whole that uses a parameter of several layers: it has one owner, who adds up all gradients."""
        for value in (self._values.get(n) for n in node.all_input_nodes):
            if isinstance(value, State) and (shared := sorted(set(value.trained) & set(self._tied))):
                raise Unsplittable(f"several layers use its parameter {shared[0]}")

    def _site(self, node: Node, op: str) -> Site:
        schema = node.target._schema  # type: ignore[union-attr]
        args: dict[str, Any] = {a.name: a.default_value for a in schema.arguments if a.has_default_value()}
        args |= dict(zip((a.name for a in schema.arguments), node.args, strict=False)) | node.kwargs
        tensors = tensors_of(node)
        shapes = tuple(map(shape_of, tensors))
        values = {name: self._resolved(arg) for name, arg in args.items()}
        has_rows = bool(tensors) and all(map(self._book.has_rows, tensors))
        return Site(op, values, shapes[0] if shapes else (), shapes, has_rows)

    def _resolved(self, arg: Any) -> Any:
        if is_number(arg):
            return number_of(arg)
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
        return outcome.views if len(tensors_of(node)) > 1 or isinstance(node.meta["val"], list) else outcome.views[0]

    def _end_shuffles(self, nodes: Iterable[Node]) -> bool:
        """End the begun shuffles behind some values; say if there were any."""
        ended = [self._end_shuffle(node) for node in nodes if node in self._shuffles]  # all of them
        return any(ended)

    def _end_shuffle(self, node: Node) -> bool:
        """Place the begun shuffle behind a value whole, for readers that want it half done; say if there was one."""
        view = self._values[node]
        if not isinstance(view, View) or view.channel_dims == 1:
            return False
        first, *others = self._shuffles[node]
        operands = [self._values.get(n) for n in first.all_input_nodes]
        reads = tuple(operand(v, Reads.ALL) for v in operands if isinstance(v, View))
        draft = self._book.draft(first, Rule.WHOLE, 1, reads)
        draft.reason = "its reshape splits channels, as half a channel shuffle does"
        for call in others:
            self._book.record(draft, call)
        draft.couples_rows = not all(map(keeps_rows_apart, (first, *others)))
        self._book.keep(node, self._book.output_of(draft, node))
        return True

    def _followed(self, node: Node, producer: Node, outcome: Follows) -> View:
        draft = self._sole_reader(producer)
        if draft:
            return self._trail(draft, node)
        return self._anchored(node, Anchor(Rule.CHANNELWISE, ((outcome.operand, Reads.SAME),)))

    def _sole_reader(self, producer: Node) -> Draft | None:
        """Return the layer whose untouched output this is, if nobody else reads it and it is not an input."""
        view = self._values[producer]
        readers = [user for user in producer.users if not is_number(user)]
        layer = view.layer if isinstance(view, View) and len(readers) == 1 else None
        draft = self._drafts[layer] if layer else None
        return draft if draft and draft.rule is not Rule.INPUT and not draft.result_values else None

    def _trail(self, draft: Draft, node: Node) -> View:
        self._book.record(draft, node)
        return self._book.output_of(draft, node)

    def _anchored(self, node: Node, anchor: Anchor) -> View:
        reads = tuple(operand(view, read) for view, read in anchor.operands)
        draft = self._book.draft(node, anchor.rule, shape_made(node)[1], reads)
        draft.anchor = anchor
        return self._book.output_of(draft, node)

    def _whole(self, node: Node, operands: list[Node], reason: str) -> View | tuple[View, ...]:
        draft = self._sole_reader(operands[0]) if len(operands) == 1 else None
        if not draft or draft.rule is not Rule.WHOLE:
            views = dict.fromkeys(v for n in operands for v in flat_views(self._values[n]))
            reads = tuple(operand(view, Reads.ALL) for view in views)
            draft = self._book.draft(node, Rule.WHOLE, 1, reads)
            draft.reason = reason
        else:
            self._book.record(draft, node)
        draft.whole_macs += counted_macs(node)
        draft.couples_rows |= not keeps_rows_apart(node)
        if isinstance(node.meta["val"], torch.Tensor):
            return self._book.output_of(draft, node)
        results = [self._book.view_of(draft, tensor, None) for tensor in tensors_of(node)]
        return tuple(replace(v, sources=(replace(v.sources[0], result=i),)) for i, v in enumerate(results))


def _has_gradient(node: Node) -> bool:
    """Say whether some call reads a parameter, or another name of it, where gradients are on."""
    return any(not user.meta.get(NO_GRAD) or (viewed(user) is node and _has_gradient(user)) for user in node.users)
