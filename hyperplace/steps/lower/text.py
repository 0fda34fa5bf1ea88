"""Statements of a program, and expressions that put tensors together."""

import ast
import re

from hyperplace.values.program import Step


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
