"""Long statements over several lines, cut at their brackets."""

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
