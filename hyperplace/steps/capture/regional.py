"""A region as a layer placed whole: its calls just as they are, on memory of its own.

What is written inside and comes from outside is copied first. A buffer that is written lives in this layer only: the
layer copies it, changes the copy as the model does, and stores it back at the end; whoever reads it later reads the
layer's result.
"""

from dataclasses import replace

import torch
from torch.fx import Node

from hyperplace.errors import ModelError
from hyperplace.steps.capture.aliases import base_of, is_random, op_name, tracked, written
from hyperplace.steps.capture.book import Book, Draft, flat_views, operand
from hyperplace.steps.capture.export import WITHIN
from hyperplace.steps.capture.nodes import counted_macs, tensors_of
from hyperplace.steps.capture.regions import Region
from hyperplace.steps.capture.rowwise import keeps_rows_apart
from hyperplace.steps.capture.rules import State
from hyperplace.steps.capture.sizes import type_of
from hyperplace.steps.capture.views import View
from hyperplace.values.graph import Call, Reads, Ref, Rule

STORE = "store"  # the call that stores a buffer back


def add_region(book: Book, region: Region) -> None:
    """Enter a region's calls and results."""
    bases = _outer_bases(region)
    buffers = [base for base in bases if _is_state(book, base)]
    _refuse_parameters(book, buffers, region)
    draws = any(map(is_random, region))
    if not (buffers or draws or any(book.is_data(n) for node in region for n in node.all_input_nodes)):
        _enter_constant(book, region, bases)
    else:
        _enter_layer(book, region, bases, buffers)


def _outer_bases(region: Region) -> list[Node]:
    """Return the values from outside whose memory the region writes into."""
    inside = set(region)
    bases = [base_of(target) for node in region for target in (*written(node), *tracked(node))]
    return list(dict.fromkeys(base for base in bases if base not in inside))


def _is_state(book: Book, node: Node) -> bool:
    value = book.values.get(node)
    return isinstance(value, State) and bool(value.name)


def _refuse_parameters(book: Book, states: list[Node], region: Region) -> None:
    for node in states:
        name = book.values[node].name
        if name in book.learning:
            raise ModelError(
                f"the model writes into its parameter {name} in forward ({region[-1].name}), which would be another "
                "update beside the optimizer's; do it after the step, or make it a buffer"
            )


def _enter_constant(book: Book, region: Region, bases: list[Node]) -> None:
    """Remember values that depend on no input: whoever reads them computes them."""
    before = [call for node in region for n in node.all_input_nodes for call in book.prologue.get(n, ())]
    trained: tuple[str, ...] = ()
    calls = list(dict.fromkeys(before))
    for node in region:
        states = [v for n in node.all_input_nodes if isinstance(v := book.values.get(n), State)]
        trained = tuple(dict.fromkeys((*trained, *(name for state in states for name in state.trained))))
        calls.append(book.call(node))
        book.keep(node, State(tuple(book.call(node).shape), "", trained))
    for node in (*region, *bases):
        book.prologue[node] = tuple(calls)


def _enter_layer(book: Book, region: Region, bases: list[Node], buffers: list[Node]) -> None:
    results = _results(region, bases)
    if not (results or buffers):
        return  # nobody sees what it does
    inside = set(region)
    sources = dict.fromkeys(n for node in region for n in node.all_input_nodes if n not in inside and book.is_data(n))
    views = dict.fromkeys(view for n in sources for view in flat_views(book.values[n])) or {_any_input(book): None}
    draft = book.blank(region[0], Rule.WHOLE, 1, tuple(operand(view, Reads.ALL) for view in views))
    draft.reason = _reason(book, region, buffers)
    own = _add_copies(book, draft, bases)
    for node in region:
        for argument in node.all_input_nodes:
            if argument not in own:
                book.record_state(draft, argument)
        draft.calls.append(book.call(node, own))
        draft.whole_macs += counted_macs(node)
        draft.couples_rows |= not keeps_rows_apart(node)
    draft.writes = tuple(book.values[base].name for base in buffers)
    for base in buffers:
        draft.calls.append(Call("", STORE, (Ref(book.values[base].name, True), own[base]), (), ()))
    draft.num_anchor_calls = len(draft.calls)
    _add_results(book, draft, results)


def _any_input(book: Book) -> View:
    """Return an input of the model, for a layer that reads none, so that there is one to every mini-batch."""
    return next(view for view in book.values.values() if isinstance(view, View))


def _reason(book: Book, region: Region, buffers: list[Node]) -> str:
    if buffers:
        return f"it writes the buffer {book.values[buffers[0]].name}"
    if within := next((node.meta[WITHIN] for node in region if node.meta.get(WITHIN)), ()):
        return f"it runs in {within[0].partition('(')[0]}"
    write = next((node for node in region if written(node)), None)
    if write is None:
        return "it draws random numbers"
    return f"{op_name(write)} writes into memory that others read"


def _add_copies(book: Book, draft: Draft, bases: list[Node]) -> dict[Node, Ref]:
    """Copy what is written and comes from outside; return the names of the copies."""
    own = {}
    for base in bases:
        book.record_state(draft, base)
        (tensor,) = tensors_of(base)
        name, before = _own_name(base), book.call_argument(base)
        draft.calls.append(book.cloned(name, before, tensor))
        own[base] = Ref(name)
    return own


def _results(region: Region, bases: list[Node]) -> dict[Node, str]:
    """Return what is read of a region outside of it: values made inside, and what it has made of those from outside."""
    inside, order = set(region), {node: number for number, node in enumerate(region[0].graph.nodes)}
    first = order[region[0]]
    made = [node for node in region if isinstance(node.meta.get("val"), torch.Tensor)]
    read = [node for node in made if any(user not in inside for user in node.users)]
    changed = [base for base in bases if any(user not in inside and order[user] > first for user in base.users)]
    return {node: node.name for node in read} | {base: _own_name(base) for base in changed}


def _own_name(base: Node) -> str:
    """Return the name of a region's copy of a value from outside."""
    return f"{base.name}_own"


def _add_results(book: Book, draft: Draft, names: dict[Node, str]) -> None:
    """Enter a region's results, each under the name it has there."""
    draft.result_values = tuple(names.values())
    for number, (node, name) in enumerate(names.items()):
        (tensor,) = tensors_of(node)
        view = book.view_of(draft, tensor, draft.name if len(names) == 1 else None)
        if len(names) > 1:
            draft.result_bytes[number], draft.result_types[number] = book.bytes_made(node), type_of(tensor)
            view = replace(view, sources=(replace(view.sources[0], result=number),))
        book.values[node] = replace(view, value=name)
        draft.shape, draft.out_bytes, draft.has_rows = view.shape, book.bytes_made(node), view.has_rows
        draft.type = type_of(tensor)
