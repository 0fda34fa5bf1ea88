"""Tell the rows in programs that were exported for fixed numbers of them, by comparing three.

Where torch.export cannot take the rows for a symbol, a number that is the same in all three is a constant, and one that
grows evenly with the rows follows them. If the programs differ in anything else, their rows cannot be told.
"""

from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.export import ExportedProgram
from torch.fx import Node
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext


class Untold(Exception):
    """Something differs between programs in another way than the rows."""


def tell_rows(program: ExportedProgram, others: list[ExportedProgram], rows: list[int]) -> None:
    """Let the first program speak of rows as a symbol; `rows` are the numbers that all were exported for, in order."""
    telling = _Telling(rows)
    nodes = [list(one.graph.nodes) for one in (program, *others)]
    if len({tuple((n.op, str(n.target)) for n in each) for each in nodes}) > 1:
        raise Untold("the programs have other calls")
    rewritten = [
        (
            alike[0],
            telling.told([node.args for node in alike]),
            telling.told([node.kwargs for node in alike]),
            telling.told([node.meta.get("val") for node in alike]),
        )
        for alike in zip(*nodes, strict=True)
    ]
    for node, args, kwargs, value in rewritten:
        node.args, node.kwargs = args, kwargs
        node.meta = {**node.meta, "val": value}


class _Telling:
    """Merge what three programs have in one place into what one for any rows has there."""

    def __init__(self, rows: list[int]) -> None:
        self._rows = rows
        self._mode = FakeTensorMode(shape_env=ShapeEnv())
        context: Any = StatelessSymbolicContext(dynamic_sizes=[DimDynamic.DYNAMIC])
        self._symbol: Any = self._mode.from_tensor(torch.empty(rows[0]), symbolic_context=context).shape[0]

    def told(self, values: list[Any]) -> Any:
        first = values[0]
        if isinstance(first, Node):
            return first
        if isinstance(first, torch.Tensor):
            return self._tensor(values)
        if isinstance(first, bool) or not isinstance(first, int | list | tuple | dict):
            if any(value != first for value in values if not isinstance(value, Node)):
                raise Untold(f"{values} are constants of another kind")
            return first
        if isinstance(first, int):
            return self._number(values)
        return self._container(values)

    def _container(self, values: list[Any]) -> Any:
        if len({len(value) for value in values}) > 1:
            raise Untold("lists have other lengths")
        if isinstance(values[0], dict):
            return {key: self.told([value[key] for value in values]) for key in values[0]}
        merged = [self.told(list(each)) for each in zip(*values, strict=True)]
        return tuple(merged) if isinstance(values[0], tuple) else merged

    def _number(self, values: list[int]) -> Any:
        if len(set(values)) == 1:
            return values[0]
        slope, rest = divmod(values[1] - values[0], self._rows[1] - self._rows[0])
        start = values[0] - slope * self._rows[0]
        if rest or any(slope * rows + start != value for rows, value in zip(self._rows, values, strict=True)):
            raise Untold(f"{values} do not grow evenly with {self._rows} rows")
        return slope * self._symbol + start

    def _tensor(self, values: list[torch.Tensor]) -> torch.Tensor:
        shape = self._container([tuple(value.shape) for value in values])
        with self._mode:
            made = torch.empty(shape, dtype=values[0].dtype, device=values[0].device)
        return made.requires_grad_(values[0].requires_grad)
