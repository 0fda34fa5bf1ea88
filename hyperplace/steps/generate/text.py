"""Lines of a program: folding long ones, and giving an expression that is used twice a name."""

WIDTH = 110


def fold(text: str, indent: int = 0, width: int = WIDTH) -> list[str]:
    """Return a statement as lines of at most `width` columns where its brackets allow, an item on each."""
    if indent + len(text) <= width or not text.endswith((")", "]", "}", "),", "],", "},")):
        return [" " * indent + text]
    end = text.rstrip(",")
    start = _opening(end)
    items = _items(end[start + 1 : -1])
    if start < 0 or not items:
        return [" " * indent + text]
    lines = [" " * indent + end[: start + 1]]
    for item in items:
        lines += fold(f"{item},", indent + 4, width)
    return [*lines, " " * indent + end[-1] + text[len(end) :]]


def _opening(text: str) -> int:
    """Return where the last bracket of the text opens."""
    depth = 0
    for position in range(len(text) - 1, -1, -1):
        depth += (text[position] in ")]}") - (text[position] in "([{")
        if depth == 0:
            return position
    return -1


def _items(text: str) -> list[str]:
    """Return what stands between the commas outside brackets and quotes."""
    items, depth, start, quote = [], 0, 0, ""
    for position, letter in enumerate(text):
        if quote:
            quote = "" if letter == quote and text[position - 1] != "\\" else quote
        elif letter in "'\"":
            quote = letter
        else:
            depth += (letter in "([{") - (letter in ")]}")
            if letter == "," and depth == 0:
                items.append(text[start:position].strip())
                start = position + 1
    return [item for item in (*items, text[start:].strip()) if item]


class Lines:
    """The body of one method."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._variable_of: dict[str, str] = {}

    def comment(self, text: str) -> None:
        self.lines.append(f"# {text}")

    def add(self, text: str) -> None:
        self.lines += fold(text, 0, WIDTH - 8)

    def let(self, variable: str, expression: str) -> None:
        """Assign, unless the expression is the variable itself."""
        if variable != expression:
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
        """Drop what was remembered of a variable that now has another value."""
        self._variable_of = {e: v for e, v in self._variable_of.items() if v != variable}


def index_text(ranges: tuple[tuple[int, int], ...]) -> str:
    """Return ranges as `0:32`, several joined by +."""
    return "+".join(f"{start}:{stop}" for start, stop in ranges)


def joined(pieces: list[str]) -> str:
    """Return the pieces side by side in dimension 1."""
    return pieces[0] if len(pieces) == 1 else f"torch.cat(({', '.join(pieces)}), 1)"
