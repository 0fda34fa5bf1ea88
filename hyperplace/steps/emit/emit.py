"""Print a program: one class per part with its tables and a method per segment, and the messages between them.

Nothing is decided here, and nothing is lost: `files.program.parse_program` gives an equal program back. Names of layers
and parameters may be any text; they get into the program as string literals and, with whatever could end it taken out,
into docstrings.
"""

from collections.abc import Iterator
from dataclasses import MISSING, fields
from typing import Any

from hyperplace.errors import UsageError
from hyperplace.values.program import PartProgram, Program, Segment

TABLES = ("Copy", "Feed", "Keep", "Message", "Output", "Piece", "Receive", "Rows", "Segment", "Send", "Slot")
POSITIONAL = ("Feed", "Keep", "Output", "Receive", "Send", "Slot", "Piece", "Copy", "Rows")
HIDDEN = ("method", "parts")  # printed as methods and classes
WIDTH = 110


def emit(program: Program) -> str:
    """Return the program as Python; the same program gives the same text."""
    classes = [_class(number, part, program) for number, part in enumerate(program.parts)]
    foot = _foot(program)
    uses_functional = any("F." in text for text in classes)
    tables = [name for name in TABLES if any(f"{name}(" in text for text in (*classes, foot))]
    return "\n\n\n".join([_head(program, uses_functional, tables), *classes, foot]) + "\n"


def _head(program: Program, uses_functional: bool, tables: list[str]) -> str:
    planned = sum(m.num_bytes(program.batch, program.batch) for m in program.messages if m.planned)
    most = max((part.work for part in program.parts), default=0.0)
    balance = most * len(program.parts) / program.total_work if program.total_work else 1.0
    grain = f"{program.grain} grain, " if program.grain else ""
    return "\n".join(
        [
            f'"""{words(program.name)} on {len(program.parts)} parts, {grain}planned for batches of '
            f"{program.batch} rows.",
            "",
            f"Parts exchange {planned / 2**20:.1f} MiB in the forward pass; the heaviest does {balance:.3f} times the",
            "average work. Each class below is one part: its slices of the parameters, a table of what it takes and",
            "gives in which order, and a method per segment (a run of layers that waits for nobody). Run it to train",
            "on made-up data (--help tells more), import PROGRAM to train on your own, or edit it: it is PyTorch.",
            '"""',
            "",
            "import torch",
            *(["import torch.nn.functional as F"] if uses_functional else []),
            "",
            "from hyperplace import runtime",
            *fold(f"from hyperplace.runtime import {', '.join(tables)}"),
        ]
    )


def _foot(program: Program) -> str:
    names = [f"Part{number}" for number in range(len(program.parts))]
    parts = f"parts=({', '.join(names)}{',' * (len(names) == 1)})"
    named = _words(program, positional=1)
    text = f"PROGRAM = runtime.program({', '.join([named[0], parts, *named[1:]])})"
    return "\n".join([*fold(text), "", 'if __name__ == "__main__":', "    runtime.main(PROGRAM)"])


def _class(number: int, part: PartProgram, program: Program) -> str:
    share = part.work / program.total_work if program.total_work else 0.0
    held = sum(piece.num_bytes for piece in part.weights.values())
    about = f"{share:.1%} of the work, {held / 2**20:.1f} MiB of parameters"
    lines = [f"class Part{number}(runtime.Part):", f'    """Part {number} of {len(program.parts)}: {about}."""', ""]
    for name, table in (("holds", part.holds), ("weights", part.weights), ("buffers", part.buffers)):
        if table:
            rows = [f"{literal(key)}: {_text(value)}," for key, value in table.items()]
            lines += [f"    {name} = {{", *(line for row in rows for line in fold(row, 8)), "    }", ""]
    rows = [f"{_text(segment)}," for segment in part.segments]
    lines += ["    segments = (", *(line for row in rows for line in fold(row, 8)), "    )"]
    for segment in part.segments:
        lines += ["", *_method(segment)]
    return "\n".join(lines)


def _method(segment: Segment) -> list[str]:
    method = segment.method
    if method is None:
        raise UsageError(
            f"the code of {segment.name} is not known, for the program was imported; read its file with load_program"
        )
    lines = fold(f"def {segment.name}({', '.join(['self', *method.arguments])}):", 4)
    for step in method.steps:
        lines += fold(f"self.step = {literal(step.layer)}, {literal(step.note)}", 8)
        lines += [line for statement in step.code for line in _statement(statement)]
    results = f"({', '.join(method.results)}{',' * (len(method.results) == 1)})"
    return [*lines, *fold(f"return {results}", 8)]


def _statement(text: str) -> list[str]:
    """Return a statement, which may have a block of others in it, folded and indented."""
    lines = []
    for line in text.split("\n"):
        code = line.lstrip()
        lines += fold(code, 8 + len(line) - len(code), WIDTH)
    return lines


def _text(value: Any) -> str:
    """Return a value as the expression that makes it."""
    name = type(value).__name__
    if name in TABLES:
        count = len(fields(value)) if name in POSITIONAL else 1 if isinstance(value, Segment) else 2
        return f"{name}({', '.join(_words(value, positional=count))})"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_text(key)}: {_text(one)}" for key, one in value.items()) + "}"
    if isinstance(value, tuple | list):
        inner = ", ".join(map(_text, value))
        if isinstance(value, list):
            return f"[{inner}]"
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    if isinstance(value, str):
        return literal(value)
    if isinstance(value, float):
        return _number(value)
    if value is None or isinstance(value, bool | int | complex):
        return repr(value)
    raise UsageError(f"{value!r}, of {type(value).__name__}, cannot be written into a program")


def _words(value: Any, *, positional: int) -> list[str]:
    """Return a dataclass's arguments, the first ones without their names and what has its default value left out."""
    texts: list[str] = []
    for number, one in enumerate(fields(value)):
        found = getattr(value, one.name)
        default = one.default if one.default_factory is MISSING else one.default_factory()
        if one.name in HIDDEN or (default is not MISSING and found == default):
            continue
        is_plain = number < positional and len(texts) == number and not one.kw_only
        texts.append(_text(found) if is_plain else f"{one.name}={_text(found)}")
    return texts


def _number(value: float) -> str:
    if value != value or value in (float("inf"), float("-inf")):
        return f'float("{value}")'
    return repr(value)


def literal(text: str) -> str:
    """Return the text as a string literal, in double quotes where it is plain."""
    return f'"{text}"' if text.isprintable() and not set(text) & set('"\\') else repr(text)


def words(text: str) -> str:
    """Return the text fit for a docstring: on one line, without quotes and backslashes."""
    return "".join(c if c.isprintable() and c not in '"\\' else "?" for c in text)


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
