"""One captured ATen call as a line of Python.

Common operations are written as people write them (torch.conv2d), all others by their full name
(torch.ops.aten.slice.Tensor), which always works. Nothing but identifiers, numbers and names made by us gets through.
"""

import re
from collections.abc import Callable
from typing import Any

from hyperplace.errors import ModelError
from hyperplace.values.graph import Call, Ref, Rows

_PLAIN = """
    conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d batch_norm instance_norm group_norm
    relu relu_ sigmoid sigmoid_ tanh tanh_ exp log sqrt rsqrt abs neg reciprocal prelu
    max_pool1d max_pool2d max_pool3d avg_pool1d adaptive_avg_pool1d flatten cat mean amax amin softmax log_softmax
    add sub mul div maximum minimum where
"""
_FUNCTIONAL = "linear adaptive_avg_pool2d adaptive_avg_pool3d avg_pool2d avg_pool3d gelu silu hardswish mish"

PLAIN = frozenset(_PLAIN.split())
FUNCTIONAL = frozenset(_FUNCTIONAL.split())
DROPOUTS = frozenset(["dropout", "feature_dropout", "alpha_dropout", "feature_alpha_dropout"])
RESHAPES = frozenset(["view", "reshape", "_unsafe_view", "unflatten", "squeeze"])
GETITEM, CONSTANT, STORE = "getitem", "constant", "store"  # what a captured program has besides ATen's operations

TextOf = Callable[[Any], str]  # of a Ref or Rows

_OP = re.compile(r"([A-Za-z_]\w*)\.([A-Za-z_]\w*)\.([A-Za-z_]\w*)", re.ASCII)
_TORCH_CONSTANT = re.compile(r"torch\.[a-z_]\w*", re.ASCII)
_DEVICE = re.compile(r"(cpu|meta|cuda|mps|xpu)(:\d+)?")


def op_name(call: Call) -> str:
    """Return `conv2d` for aten.conv2d.default."""
    return call.op if call.op in (GETITEM, CONSTANT, STORE) else _parsed(call.op)[1]


def is_in_place(call: Call) -> bool:
    return op_name(call).endswith("_") and not op_name(call).endswith("__")


def is_view(call: Call) -> bool:
    """Say whether a call's result may share memory with its first argument, not counting what it writes in place."""
    return call.op == GETITEM or call.schema.shares_memory


def argument_names(call: Call) -> tuple[str, ...]:
    """Return the names of all arguments of the operation, in order."""
    return call.schema.arguments


def arguments(call: Call) -> dict[str, Any]:
    """Return the given arguments by name, in the order they are given."""
    named = dict(zip(argument_names(call), call.args, strict=False))
    return named | dict(call.kwargs)


def refs(call: Call) -> list[Ref]:
    """Return every Ref in the arguments of a call, in order."""
    found: list[Ref] = []

    def visit(arg: object) -> None:
        if isinstance(arg, Ref):
            found.append(arg)
        elif isinstance(arg, tuple):
            for inner in arg:
                visit(inner)

    visit(call.args)
    visit(tuple(value for _, value in call.kwargs))
    return found


def draws(call: Call) -> bool:
    """Say whether a call draws random numbers."""
    chances = [name for name in ("dropout_p", "dropout") if name in call.schema.arguments]
    return call.schema.draws and (not chances or any(arguments(call).get(name, 0.0) for name in chances))


def seeded(call: Call) -> str:
    """Return the operation that draws the same numbers from a generator."""
    if not call.schema.seeded:
        raise ModelError(
            f"{call.value} draws random numbers ({call.op}) that could not be repeated; set its dropout to 0"
        )
    return call.schema.seeded


def out_of_place(call: Call) -> str:
    """Return the operation that does the same to a new tensor."""
    if not call.schema.out_of_place:
        raise ModelError(
            f"{call.value} writes in place ({call.op}) what others read, and torch has no other form of it"
        )
    return call.schema.out_of_place


def call_text(op: str, call: Call, text_of: TextOf, changed: dict[str, str] | None = None) -> str:
    """Return the call as an expression; `changed` has other texts for some of its arguments, by name."""
    changed = changed or {}
    named, names = arguments(call), argument_names(call)
    positional = [changed.get(n) or constant_text(named[n], text_of) for n in names[: len(call.args)]]
    keywords = [f"{n}={changed.get(n) or constant_text(v, text_of)}" for n, v in call.kwargs]
    keywords += [f"{n}={text}" for n, text in changed.items() if n not in named]
    return f"{_function(op)}({', '.join([*positional, *keywords])})"


def _function(op: str) -> str:
    library, name, overload = _parsed(op)
    if library == "aten" and name in PLAIN:
        return f"torch.{name}"
    if library == "aten" and name in FUNCTIONAL:
        return f"F.{name}"
    return f"torch.ops.{library}.{name}.{overload}"


def constant_text(arg: Any, text_of: TextOf) -> str:
    """Return an argument as Python."""
    if isinstance(arg, Ref | Rows):
        return text_of(arg)
    if isinstance(arg, tuple):
        inner = ", ".join(constant_text(a, text_of) for a in arg)
        return f"({inner},)" if len(arg) == 1 else f"({inner})"
    if isinstance(arg, str):
        if _TORCH_CONSTANT.fullmatch(arg):
            return arg
        return "self.device" if _DEVICE.fullmatch(arg) else repr(arg)
    if isinstance(arg, float) and (arg != arg or arg in (float("inf"), float("-inf"))):
        return f'float("{arg}")'
    return repr(arg)


def _parsed(op: str) -> tuple[str, str, str]:
    match = _OP.fullmatch(op)
    if not match:
        raise ModelError(f"{op!r} is not an operation of torch's; a program for it cannot be written")
    return match[1], match[2], match[3]
