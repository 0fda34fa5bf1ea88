"""The text of a program: identifiers, statements, and expressions that put tensors together.

Layer and parameter names can be any text, from models and plan files. They reach a program's code only as identifiers
made here; where a program is printed they are string literals besides.
"""

import ast
import keyword
import re
from collections.abc import Hashable

from hyperplace.values.program import Step

VARIABLES = frozenset(["self", "torch", "F", "runtime"])  # what a method uses by name
_ATTRIBUTES = (
    "weights buffers segments holds step training device generator batch num_rows rows count see expect _fetch table"
)
ATTRIBUTES = frozenset(_ATTRIBUTES.split())  # of a part


class Names:
    """Give every key an identifier of its own, and the same one each time it is asked for."""

    def __init__(self, taken: frozenset[str] = VARIABLES) -> None:
        self._of: dict[Hashable, str] = {}
        self._taken = set(taken)

    def __call__(self, *words: str | int) -> str:
        if words not in self._of:
            self._of[words] = self._free(_identifier("_".join(map(str, words))))
        return self._of[words]

    def _free(self, wish: str) -> str:
        name, number = wish, 1
        while name in self._taken:
            number += 1
            name = f"{wish}_{number}"
        self._taken.add(name)
        return name


def _identifier(text: str) -> str:
    name = re.sub(r"\W+", "_", text, flags=re.ASCII).strip("_") or "unnamed"
    is_plain = not (name[0].isdigit() or keyword.iskeyword(name) or re.fullmatch(r"segment_\d+", name))
    return name if is_plain else f"_{name}"


class Lines:
    """The body of one method, step by step."""

    def __init__(self) -> None:
        self._steps: list[tuple[str, str, list[str]]] = []  # layer, note, statements
        self._variable_of: dict[str, str] = {}

    @property
    def steps(self) -> tuple[Step, ...]:
        return tuple(Step(layer, note, canonical(statements)) for layer, note, statements in self._steps)

    def begin(self, layer: str, note: str) -> None:
        """Begin the step of a layer; the outputs' step has none."""
        self._steps.append((layer, note, []))

    def add(self, statement: str) -> None:
        self._steps[-1][2].append(statement)

    def let(self, variable: str, expression: str, within: tuple[str, ...] = ()) -> None:
        """Assign, unless the expression is the variable itself; in the contexts given."""
        if variable == expression:
            return
        assignment = f"{variable} = {expression}"
        self.add(f"with {', '.join(within)}:\n    {assignment}" if within else assignment)
        self._forget(variable)

    def shared(self, variable: str, expression: str) -> str:
        """Return a variable that has the expression's value, assigned now or before."""
        if expression.isidentifier():
            return expression
        if expression not in self._variable_of:
            self.let(variable, expression)
            self._variable_of[expression] = variable
        return self._variable_of[expression]

    def _forget(self, variable: str) -> None:
        """Drop what was remembered of a variable that now has another value, and of all that was made from it."""
        stale = re.compile(rf"\b{variable}\b", re.ASCII)
        self._variable_of = {e: v for e, v in self._variable_of.items() if v != variable and not stale.search(e)}


def index_text(ranges: tuple[tuple[int, int], ...]) -> str:
    """Return ranges as `0:32`, several joined by +."""
    return "+".join(f"{start}:{stop}" for start, stop in ranges)


def joined(pieces: list[str]) -> str:
    """Return the pieces side by side in dimension 1."""
    return pieces[0] if len(pieces) == 1 else f"torch.cat(({', '.join(pieces)}), 1)"


def stacked(pieces: list[str]) -> str:
    """Return the pieces one under the other, as rows."""
    return pieces[0] if len(pieces) == 1 else f"torch.cat(({', '.join(pieces)}))"


def canonical(statements: list[str]) -> tuple[str, ...]:
    """Return statements as `ast.unparse` writes them, so that a program that is read equals the one printed."""
    return tuple(map(ast.unparse, ast.parse("\n".join(statements)).body))
