"""Lines of a program: folding long ones, and giving an expression that is used twice a name."""

import re
from collections.abc import Iterator

WIDTH = 110


def fold(text: str, indent: int = 0, width: int = WIDTH) -> list[str]:
    """Return a statement as lines of at most `width` columns where its brackets allow, an item on each."""
    if indent + len(text) <= width:
        return [" " * indent + text]
    start, stop = max(_brackets(text), key=lambda span: span[1] - span[0], default=(0, 0))
    items = _split(text[start + 1 : stop], ",")
    if len(items) < 2 and stop - start < width // 2:
        return _folded_sum(text, indent, width)
    lines = [" " * indent + text[: start + 1]]
    # A comma behind a single item would make a tuple of what is only in brackets.
    comma = "," if len(items) > 1 or text[:stop].rstrip().endswith(",") else ""
    for item in items:
        lines += fold(f"{item}{comma}", indent + 4, width)
    return [*lines, *fold(text[stop:], indent, width)]


def _folded_sum(text: str, indent: int, width: int) -> list[str]:
    """Return `x = a + b` with a term on each line, in brackets; as it is if there is nothing to fold."""
    head, equals, value = text.partition(" = ")
    value, end = (value or head).removesuffix(","), "," if text.endswith(",") else ""
    terms = _split(value, "+")
    if len(terms) < 2:
        return [" " * indent + text]
    inner = [f"{terms[0]}", *(f"+ {term}" for term in terms[1:])]
    begin = f"{head} = (" if equals else "("
    return [" " * indent + begin, *(" " * (indent + 4) + term for term in inner), " " * indent + f"){end}"]


def _brackets(text: str) -> list[tuple[int, int]]:
    """Return where brackets that are in no others open and close."""
    spans, depth, start = [], 0, 0
    for position, letter in _code(text):
        if letter in "([{":
            start = position if depth == 0 else start
            depth += 1
        elif letter in ")]}":
            depth -= 1
            if depth == 0:
                spans.append((start, position))
    return spans


def _split(text: str, separator: str) -> list[str]:
    """Return what stands between the separators outside brackets and quotes."""
    items, depth, start = [], 0, 0
    for position, letter in _code(text):
        depth += (letter in "([{") - (letter in ")]}")
        if letter == separator and depth == 0:
            items.append(text[start:position].strip())
            start = position + 1
    return [item for item in (*items, text[start:].strip()) if item]


def _code(text: str) -> Iterator[tuple[int, str]]:
    """Yield the letters outside string literals, with their positions."""
    quote, is_escaped = "", False
    for position, letter in enumerate(text):
        if quote:
            quote = "" if letter == quote and not is_escaped else quote
            is_escaped = letter == "\\" and not is_escaped
        elif letter in "'\"":
            quote = letter
        else:
            yield position, letter


class Lines:
    """The body of one method."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._variable_of: dict[str, str] = {}

    def comment(self, text: str) -> None:
        self.lines.append(f"# {text}")

    def add(self, text: str) -> None:
        self.lines += fold(text, 0, WIDTH - 8)

    def let(self, variable: str, expression: str, within: tuple[str, ...] = ()) -> None:
        """Assign, unless the expression is the variable itself; in the contexts given."""
        if variable == expression:
            return
        if within:
            self.lines += [f"with {', '.join(within)}:", *fold(f"{variable} = {expression}", 4, WIDTH - 8)]
        else:
            self.add(f"{variable} = {expression}")
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
