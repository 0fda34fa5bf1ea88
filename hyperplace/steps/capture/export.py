"""Run torch.export with the rows of the batch as a symbol, and lay the programs nested in the result flat.

Where a model's code wants one certain number of rows, it is exported for that number alone.
"""

import inspect
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import sympy
import torch
from torch import nn
from torch.export import Dim, ExportedProgram
from torch.fx import Graph, GraphModule, Node
from torch.fx.node import map_arg
from torch.utils._pytree import tree_map

from hyperplace.errors import ModelError
from hyperplace.steps.capture.aliases import is_in_place, op_name, written
from hyperplace.steps.capture.told import Untold, tell_rows

WITHIN = "within"  # in a node's meta: the contexts it runs in, as Python
NO_GRAD = "no_grad"  # in a node's meta: what it makes has no gradient
_GRAD_MODE, _AUTOCAST = "wrap_with_set_grad_enabled", "wrap_with_autocast"
_NO_GRAD = "torch.no_grad()"


Sample = tuple[tuple[Any, ...], dict[str, Any]]  # positional and keyword arguments


@dataclass(frozen=True)
class Exported:
    """A flat program, and for how many rows it is the model.

    `runnable` is the same program where this one's numbers have become symbols afterwards, for so many rows.
    """

    program: ExportedProgram
    fewest_rows: int
    most_rows: int | None
    runnable: tuple[ExportedProgram, int] | None = None


def export(model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], rows: int) -> Exported:
    """Return the program of a model for a sample of so many rows, and the numbers of rows for which it holds."""
    many = _at_least_two(args, kwargs, rows)
    try:
        program = torch.export.export(model, *many, dynamic_shapes=_any_rows(model, *many))
    except Exception:  # a model's code may do anything with the number of its rows
        with suppress(Untold):
            return _compared(model, *many, max(rows, 2))
        return export_for(model, args, kwargs, rows)
    flatten(program)
    if not _has_lasting_constants(model, many, program):
        return export_for(model, args, kwargs, rows)
    return Exported(program, *_span(program))


def _has_lasting_constants(model: nn.Module, sample: Sample, program: ExportedProgram) -> bool:
    """Say whether the tensors that the model's code makes of numbers are the same for other rows."""
    if not _constants(program):
        return True
    more = tree_map(lambda x: torch.cat([x, x[:1]]) if isinstance(x, torch.Tensor) else x, sample)
    return _same_constants(program, torch.export.export(model, *more))


def _same_constants(one: ExportedProgram, other: ExportedProgram) -> bool:
    made, also = _constants(one), _constants(other)
    return len(made) == len(also) and all(torch.equal(a, b) for a, b in zip(made, also, strict=True))


def _constants(program: ExportedProgram) -> list[torch.Tensor]:
    specs = program.graph_signature.input_specs
    return [program.constants[s.target] for s in specs if s.kind.name == "CONSTANT_TENSOR" and s.target]


def _compared(model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], rows: int) -> Exported:
    """Return the program for any rows, found by exporting it for three numbers of them."""
    numbers = [rows, rows + 1, 2 * rows + 3]
    programs = []
    for number in numbers:
        sample = tree_map(lambda x, n=number: _of_rows(x, n) if isinstance(x, torch.Tensor) else x, (args, kwargs))
        try:
            programs.append(torch.export.export(model, *sample))
        except Exception as fault:  # it takes these rows only
            raise Untold(str(fault)) from None
        flatten(programs[-1])
    program, *others = programs
    if not all(_same_constants(program, other) for other in others):
        raise Untold("a tensor made of numbers follows the rows")
    tell_rows(program, others, numbers)
    return Exported(program, 1, None, runnable=(others[0], numbers[1]))


def _of_rows(tensor: torch.Tensor, rows: int) -> torch.Tensor:
    """Return a tensor of so many rows, those of another over and over."""
    return torch.cat([tensor] * (rows // tensor.shape[0] + 1))[:rows]


def export_for(model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], rows: int) -> Exported:
    """Return the program of a model for just the rows of the sample."""
    try:
        program = torch.export.export(model, args, kwargs)
    except Exception as fault:  # whatever the model's own code raises while torch runs it
        lines = [line.strip() for line in str(fault).splitlines() if line.strip()] or ["no reason given"]
        raise ModelError(
            f"torch.export cannot capture {type(model).__name__}: {type(fault).__name__}: {lines[0]}; "
            "run torch.export.export(model, (sample,)) for the whole story"
        ) from fault
    flatten(program)
    return Exported(program, rows, rows, runnable=(program, rows))


def _any_rows(model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return, by the names of forward's parameters, that dimension 0 of every tensor may have any size."""
    given = inspect.signature(model.forward).bind(*args, **kwargs).arguments
    return tree_map(lambda x: {0: Dim.DYNAMIC} if isinstance(x, torch.Tensor) else None, dict(given))  # type: ignore[no-any-return]


def _at_least_two(args: tuple[Any, ...], kwargs: dict[str, Any], rows: int) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the sample with a second row where it has one, for torch.export takes a single row for a constant.

    The tensors are others than the user's, which torch.export would mark as having any number of rows for ever.
    """

    def enough(x: Any) -> Any:
        return (x.detach() if rows > 1 else torch.cat([x, x])) if isinstance(x, torch.Tensor) else x

    return tree_map(enough, (args, kwargs))  # type: ignore[no-any-return]


def _span(program: ExportedProgram) -> tuple[int, int | None]:
    """Return the fewest and the most rows that the model's code takes the same way."""
    fewest, most = 1, None
    symbols = _row_symbols(program)
    for span in (span for symbol, span in program.range_constraints.items() if symbol in symbols):
        fewest = max(fewest, int(span.lower) if span.lower > 2 else 1)  # 2 is torch's own, see takes_one_row
        if isinstance(span.upper, sympy.Integer):
            most = min(most or int(span.upper), int(span.upper))
    return fewest, most


def _row_symbols(program: ExportedProgram) -> set[Any]:
    inputs = {spec.arg.name for spec in program.graph_signature.input_specs if spec.kind.name == "USER_INPUT"}
    tensors = [node.meta["val"] for node in program.graph.nodes if node.op == "placeholder" and node.name in inputs]
    sides: list[Any] = [x.shape[0] for x in tensors if isinstance(x, torch.Tensor) and x.ndim]
    return {side.node.expr for side in sides if isinstance(side, torch.SymInt)}


def flatten(program: ExportedProgram) -> None:
    """Put the calls of nested programs (torch.no_grad, torch.autocast) where those are called."""
    module = program.graph_module
    while nested := [node for node in module.graph.nodes if _is_nested(node)]:
        for node in nested:
            _inline(module, node)
    _drop_copies_to_self(module.graph)


def _drop_copies_to_self(graph: Graph) -> None:
    """Take out what `self.buffer += x` leaves behind: after the write in place, a copy of the buffer to itself."""
    for node in list(graph.nodes):
        if op_name(node) == "copy_" and not node.users and _written_through(node.args[1]) is node.args[0]:
            graph.erase_node(node)


def _written_through(node: Any) -> Any:
    """Return the value that calls in place have made this of."""
    while isinstance(node, Node) and is_in_place(node):
        node = node.args[0]
    return node


def _is_nested(node: Node) -> bool:
    return _called(node) in (_GRAD_MODE, _AUTOCAST)


def _called(node: Node) -> str:
    return str(getattr(node.target, "__name__", "")) if node.op == "call_function" else ""


def _inline(module: GraphModule, node: Node) -> None:
    number = next(i for i, arg in enumerate(node.args) if isinstance(arg, Node) and arg.op == "get_attr")
    getter, operands = node.args[number], node.args[number + 1 :]
    assert isinstance(getter, Node)
    inner: Graph = getattr(module, str(getter.target)).graph
    context = _context(node)
    cuts_off, is_pure = context == _NO_GRAD, not any(written(n) or _is_nested(n) for n in inner.nodes)
    within = node.meta.get(WITHIN, ())
    if context and not (cuts_off and is_pure):
        within = (*within, context)
    values: dict[Node, Any] = dict(
        zip((n for n in inner.nodes if n.op == "placeholder"), operands, strict=True)  # what the block reads
    )
    results: Any = ()
    with module.graph.inserting_before(node):
        for one in inner.nodes:
            if one.op == "output":
                results = map_arg(one.args[0], lambda n: values[n])
            elif one.op != "placeholder":
                values[one] = copied = module.graph.node_copy(one, lambda n: values[n])
                _moved_in(module, one, copied, inner, node)
                copied.meta |= {WITHIN: within, NO_GRAD: cuts_off or node.meta.get(NO_GRAD, False)}
        if cuts_off and is_pure:
            results = map_arg(results, lambda n: _detached(module.graph, n))
    _replace_results(node, results)
    module.graph.erase_node(node)
    if not getter.users:
        module.graph.erase_node(getter)


def _moved_in(module: GraphModule, one: Node, copied: Node, inner: Graph, outer: Node) -> None:
    """Give a program nested in a nested one a name in the outer module."""
    if one.op == "get_attr":
        name = f"{outer.name}_{one.target}"
        setattr(module, name, getattr(inner.owning_module, str(one.target)))
        copied.target = name


def _context(node: Node) -> str:
    """Return the context of a nested program as Python; nothing where gradients are on anyway."""
    if _called(node) == _GRAD_MODE:
        return _NO_GRAD if not node.args[0] else "torch.enable_grad()" if node.meta.get(WITHIN) else ""
    device, dtype, enabled, cache = node.args[:4]
    words = f"dtype={dtype}, " if dtype is not None else ""
    return f'torch.autocast("{device}", {words}enabled={enabled}, cache_enabled={cache})'


def _detached(graph: Graph, node: Node) -> Node:
    if not isinstance(node.meta.get("val"), torch.Tensor):
        return node
    made = graph.call_function(torch.ops.aten.detach.default, (node,))
    made.meta = {**node.meta, NO_GRAD: True}
    return made


def _replace_results(node: Node, results: Any) -> None:
    """Let readers of a nested program's results read the inlined ones."""
    for user in list(node.users):
        assert _called(user) == "getitem", "a nested program's results are taken one by one"
        user.replace_all_uses_with(results[user.args[1]])
        user.graph.erase_node(user)
