"""Whether a program that was captured in training, for several rows, is the model in its other uses too."""

from typing import Any

import torch
from torch import nn
from torch.export import ExportedProgram
from torch.fx import Node
from torch.utils._pytree import tree_leaves, tree_map

from hyperplace.errors import ModelError
from hyperplace.steps.capture.aliases import families, needs_of, op_name
from hyperplace.steps.capture.export import Exported, Sample, export, flatten
from hyperplace.steps.capture.sizes import is_number, number_of
from hyperplace.values.graph import Rows

_MODES = ("training", "train", "use_input_stats", "dropout_p")
_FREE = ("slice", "alias")  # which torch.export leaves out or not, as it finds them to do nothing


def takes_one_row(model: nn.Module, sample: Sample, exported: Exported) -> bool:
    """Say whether a model does the same with a single row, which torch.export always takes for a case of its own."""
    alone = tree_map(lambda x: x[:1] if isinstance(x, torch.Tensor) else x, sample)
    try:
        program = torch.export.export(model, *alone)
    except Exception:  # such as batch norm, which wants several values
        return False
    flatten(program)
    return _operations(program, 1) == _operations(exported.program, 1)


def evaluates_alike(model: nn.Module, sample: Sample, rows: int, exported: Exported) -> bool:
    """Say whether a model, now in evaluation mode, computes its outputs by the operations it is trained with.

    Dropout and norms follow the mode by themselves.
    """
    try:
        program = export(model, *sample, rows).program
    except ModelError:  # a branch that only evaluation takes may be one that cannot be exported
        return False
    return _operations(program, rows) == _operations(exported.program, rows)


def _operations(program: ExportedProgram, rows: int) -> list[Any]:
    """Return the operations that lead to the outputs, in order, with their constants for so many rows."""
    graph = program.graph
    needs = needs_of(graph, families(graph))
    wanted = {node for node in graph.nodes if node.op == "output"}
    for node in reversed(graph.nodes):
        if node in wanted:
            wanted |= needs[node]
    made = [node for node in graph.nodes if node in wanted and node.op == "call_function" and _makes_tensors(node)]
    kept = [node for node in made if "dropout" not in op_name(node) and op_name(node) not in _FREE]
    return [(node.target, _said(_by_name(node), rows)) for node in kept]


def _by_name(node: Node) -> dict[str, Any]:
    """Return a call's arguments by name, without those that say in which mode it is."""
    schema = getattr(node.target, "_schema", None)
    names = [argument.name for argument in schema.arguments] if schema else map(str, range(len(node.args)))
    named = dict(zip(names, node.args, strict=False)) | node.kwargs
    return {name: value for name, value in named.items() if name not in _MODES}


def _said(argument: Any, rows: int) -> Any:
    """Return the constants of an argument, with nothing for values."""
    if is_number(argument):
        number = number_of(argument)
        return number.at(rows) if isinstance(number, Rows) else number
    if isinstance(argument, Node):
        return None
    if isinstance(argument, dict):
        return {name: _said(one, rows) for name, one in argument.items()}
    return [_said(one, rows) for one in argument] if isinstance(argument, list | tuple) else argument


def _makes_tensors(node: Node) -> bool:
    return any(isinstance(value, torch.Tensor) for value in tree_leaves(node.meta.get("val")))
