"""One ATen call of a captured program, and what its arguments are made of."""

import operator
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from hyperplace.errors import UsageError


@dataclass(frozen=True)
class Ref:
    """In the arguments of a call: the value of this name, or the parameter or buffer where `is_state`."""

    name: str
    is_state: bool = False


OPERATORS: dict[str, Callable[..., Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
    "**": operator.pow,
}


@dataclass(frozen=True)
class Rows:
    """In the arguments of a call: the number of rows of the mini-batch at hand, or what is computed from it."""

    operator: str = ""  # of two numbers; without one it is the rows themselves
    left: "Rows | int | float" = 0
    right: "Rows | int | float" = 0

    def __post_init__(self) -> None:
        if self.operator and self.operator not in OPERATORS:
            raise UsageError(f"{self.operator!r} is no operator of rows; use one of {' '.join(OPERATORS)}")

    def at(self, rows: int) -> Any:
        """Return the number for so many rows."""
        if not self.operator:
            return rows
        left, right = (side.at(rows) if isinstance(side, Rows) else side for side in (self.left, self.right))
        return OPERATORS[self.operator](left, right)

    def text(self, rows: str) -> str:
        """Return it as Python, where `rows` says how many there are."""
        if not self.operator:
            return rows
        left, right = (side.text(rows) if isinstance(side, Rows) else repr(side) for side in (self.left, self.right))
        return f"({left} {self.operator} {right})"


@dataclass(frozen=True)
class Schema:
    """What torch says of an operation, so that nobody after capture has to ask it."""

    arguments: tuple[str, ...] = ()  # their names, in order
    shares_memory: bool = False  # its result may be a view of its first argument
    out_of_place: str = ""  # of one that writes into its first argument: the operation that makes a new tensor
    seeded: str = ""  # of one that draws random numbers: the form that takes a generator
    draws: bool = False


@dataclass(frozen=True)
class TensorType:
    """The sizes of a tensor, of which some may follow the rows of the mini-batch, and its dtype such as `float32`."""

    shape: tuple["int | Rows", ...]
    dtype: str


@dataclass(frozen=True)
class Call:
    """One ATen call of the captured program; arguments are constants, tuples of them, Refs and Rows.

    Besides ATen's operations there are `getitem`, one of several results, and `constant`, a tensor that the model's
    code makes of numbers: the flat values, the shape, the dtype.
    """

    value: str
    op: str
    args: tuple[Any, ...]
    kwargs: tuple[tuple[str, Any], ...]
    shape: tuple[int, ...]
    has_rows: bool = True  # dimension 0 of its result is the batch, and nothing else depends on its size
    within: tuple[str, ...] = ()  # the contexts it runs in, as Python: torch.no_grad(), torch.autocast(...)
    dtype: str = ""  # of its first result
    schema: Schema = field(default=Schema(), repr=False)  # follows from the operation's name

    @property
    def name(self) -> str:
        """Return `conv2d` for aten.conv2d.default."""
        return self.op.split(".")[1] if "." in self.op else self.op


_SIZED = "zeros ones full empty new_zeros new_ones new_full new_empty expand view reshape _unsafe_view"
_SIZED_BY_ROWS = frozenset(_SIZED.split())


def couples_rows(call: Call) -> bool:
    """Say whether a call that is split by channels lets rows of the batch see each other, or counts them."""
    if call.name == "batch_norm":
        return bool(call.args[5])
    if call.name == "instance_norm":
        return call.args[3] is not None  # running statistics are a mean over all rows
    return counts_rows(call)


def counts_rows(call: Call) -> bool:
    """Say whether a call's result changes with the number of rows other than by having that many."""
    return call.name not in _SIZED_BY_ROWS and has_rows_argument(call)


def has_rows_argument(call: Call) -> bool:
    """Say whether some argument is computed from the number of rows."""

    def found(arg: Any) -> bool:
        return isinstance(arg, Rows) or (isinstance(arg, tuple) and any(map(found, arg)))

    return found(call.args) or found(call.kwargs)
