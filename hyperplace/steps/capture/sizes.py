"""Shapes of a captured program: numbers for the sample's rows, and what in them follows the rows of the batch."""

from dataclasses import dataclass
from math import prod
from typing import Any

import sympy
import torch
from torch.fx import Node
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

from hyperplace.errors import ModelError
from hyperplace.values.graph import Rows, TensorType

_OPERATORS = {
    "FloorDiv": "//",
    "CleanDiv": "//",
    "Mod": "%",
    "PythonMod": "%",
    "IntTrueDiv": "/",
    "FloatTrueDiv": "/",
    "Pow": "**",
    "PowByNatural": "**",
    "FloatPow": "**",
}


USUAL_ROWS = 64  # for which bytes are counted that do not grow evenly


class UnknownSize(Exception):
    """A size is computed from the rows in a way that has no words here."""


def shape_of(tensor: torch.Tensor) -> tuple[int, ...]:
    """Return the shape for the rows of the sample."""
    return tuple(int(side.node.hint) if isinstance(side, torch.SymInt) else int(side) for side in tensor.shape)


def type_of(tensor: torch.Tensor) -> TensorType:
    """Return the sizes of a tensor for any rows, and its dtype."""
    sides = (_walked(side.node.expr) if isinstance(side, torch.SymInt) else int(side) for side in tensor.shape)
    return TensorType(tuple(side if isinstance(side, Rows) else int(side) for side in sides), dtype_of(tensor))


def dtype_of(tensor: torch.Tensor) -> str:
    """Return `float32` for torch.float32."""
    return str(tensor.dtype).removeprefix("torch.")


@dataclass(frozen=True)
class Bytes:
    """Bytes of which some are there once for every row, and the rest for any number of them."""

    per_row: int = 0
    fixed: int = 0

    def __add__(self, other: "Bytes") -> "Bytes":
        return Bytes(self.per_row + other.per_row, self.fixed + other.fixed)


def bytes_of(tensor: torch.Tensor, rows: int, *, has_fixed_rows: bool) -> Bytes:
    """Return the bytes of a tensor; for fixed rows what its dimension 0 says is believed."""
    if has_fixed_rows:
        total = prod(shape_of(tensor)) * tensor.element_size()
        return Bytes(total // rows) if tensor.ndim and shape_of(tensor)[0] == rows else Bytes(fixed=total)
    one, two, many = (_elements(tensor, number) * tensor.element_size() for number in (1, 2, USUAL_ROWS))
    if many == one + (two - one) * (USUAL_ROWS - 1) and 2 * one >= two:
        return Bytes(two - one, 2 * one - two)
    return Bytes(-(-many // USUAL_ROWS))  # a matrix of rows by rows, half of them: right for one number of rows only


def _elements(tensor: torch.Tensor, rows: int) -> int:
    sides = (_walked(side.node.expr) if isinstance(side, torch.SymInt) else int(side) for side in tensor.shape)
    return prod(int(side.at(rows)) if isinstance(side, Rows) else int(side) for side in sides)


def has_rows(tensor: torch.Tensor, fixed_rows: int | None) -> bool:
    """Say whether dimension 0 is the batch and nothing else depends on it, which for fixed rows is told by value."""
    if tensor.ndim < 2:
        return False
    if fixed_rows is not None:
        return shape_of(tensor)[0] == fixed_rows
    first, *others = tensor.shape
    return _is_symbol(first) and not any(isinstance(side, torch.SymInt) for side in others)


def leads_with_rows(tensor: torch.Tensor) -> bool:
    """Say whether dimension 0 is a multiple of the batch, and nothing else depends on it."""
    if not tensor.ndim or any(isinstance(side, torch.SymInt) for side in tensor.shape[1:]):
        return False
    first = tensor.shape[0]
    if not isinstance(first, torch.SymInt) or not first.node.expr.free_symbols:  # which a guard may have made a number
        return False
    return not sympy.simplify(first.node.expr / _symbol(first)).free_symbols


def _is_symbol(side: Any) -> bool:
    return isinstance(side, torch.SymInt) and isinstance(side.node.expr, sympy.Symbol)


def _symbol(side: torch.SymInt) -> Any:
    return next(iter(side.node.expr.free_symbols))


def is_number(value: Any) -> bool:
    """Say whether an argument or a node is a number computed from sizes, and no tensor."""
    return isinstance(_valued(value), torch.SymInt | torch.SymFloat | torch.SymBool)


def number_of(value: Any) -> Rows | int | float:
    """Return what a number is for any rows."""
    return _walked(_valued(value).node.expr)


def _valued(value: Any) -> Any:
    return value.meta.get("val") if isinstance(value, Node) else value


def _walked(expression: Any) -> Rows | int | float:
    if isinstance(expression, sympy.Symbol):
        return Rows()
    if expression.is_Integer:
        return int(expression)
    if expression.is_number:
        return float(expression)
    kind = type(expression).__name__
    if kind == "ToFloat":
        return Rows("*", _walked(expression.args[0]), 1.0)
    if kind in _OPERATORS:
        left, right = expression.args
        return Rows(_OPERATORS[kind], _walked(left), _walked(right))
    if kind not in ("Add", "Mul"):
        raise UnknownSize(str(expression))
    first, *others = (_walked(argument) for argument in expression.args)
    for other in others:
        first = Rows("+" if kind == "Add" else "*", first, other)
    return first


def refuse_unknown_sizes(node: Node) -> None:
    """Refuse a call whose result's size, or whose number, only the data say."""
    values = node.meta.get("val")
    for value in values if isinstance(values, list | tuple) else [values]:
        if isinstance(value, torch.Tensor | torch.SymInt | torch.SymFloat | torch.SymBool) and free_unbacked_symbols(
            value
        ):
            raise ModelError(
                f"{node.name} asks the data for a number or a size ({node.target}), which a program made beforehand "
                "cannot; compute it with tensors of fixed sizes, such as a mask"
            )
