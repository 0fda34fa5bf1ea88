"""A text file of whole numbers as one flat array, with the line every number stands on.

All our number files (PaToH, hMETIS, partition vectors) are lines of whole numbers with `%` comments between.
They are read in one pass, whatever they mean; each format then checks its own meaning on arrays.
"""

import re
from array import array
from dataclasses import dataclass

import numpy as np

from hyperplace.errors import FileError
from hyperplace.values.arrays import Ints

_NUMBER = re.compile(r"[+-]?\d{1,18}", re.ASCII)

# A count with nothing in the file to back it (vertices without weights, parts) is believed up to here.
MOST_UNSEEN = 2**20


@dataclass(frozen=True)
class Comment:
    """A line that starts with `%`."""

    line: int
    text: str


@dataclass(frozen=True, eq=False, repr=False)
class Rows:
    """Row r is values[offsets[r]:offsets[r + 1]] and stands on line lines[r] of the file, counted from 1.

    Comments are no rows; blank lines are, but for those before the first row and at the end.
    """

    name: str
    lines: Ints
    offsets: Ints
    values: Ints
    comments: tuple[Comment, ...]
    num_characters: int

    @property
    def num_rows(self) -> int:
        return len(self.lines)

    def row(self, number: int) -> list[int]:
        return [int(value) for value in self.values[self.offsets[number] : self.offsets[number + 1]]]

    def fault(self, row: int, what: str) -> FileError:
        """Return the error that puts `what` on the line of this row."""
        return line_fault(self.name, int(self.lines[row]), what)

    def fault_at(self, value: int, what: str) -> FileError:
        """Return the error that puts `what` on the line of the value with this index."""
        return self.fault(int(np.searchsorted(self.offsets, value, side="right")) - 1, what)

    def header(self, fields: str, least: int, most: int) -> list[int]:
        """Return the first row, checked to have least..most numbers, none negative; `fields` names them."""
        if self.num_rows == 0:
            raise FileError(f"{self.name}: the file is empty; its first line must be `{fields}`")
        header = self.row(0)
        if not least <= len(header) <= most:
            raise self.fault(0, f"the header has {len(header)} numbers; it must be `{fields}`")
        if min(header) < 0:
            raise self.fault(0, f"the header holds the negative number {min(header)}; it must be `{fields}`")
        return header


def line_fault(name: str, line: int, what: str) -> FileError:
    """Return the error for one line of a file, as `name:line: what`."""
    return FileError(f"{name}:{line}: {what}")


def parse_rows(text: str, name: str) -> Rows:
    """Read every line of the text; `name` stands for the file in errors."""
    lines, offsets, values, comments = array("q"), array("q", [0]), array("q"), []
    for number, line in enumerate(text.rstrip().split("\n"), 1):
        content = line.strip()
        if content.startswith("%"):
            comments.append(Comment(number, content))
        elif content or lines:
            _append_numbers(values, content, name, number)
            lines.append(number)
            offsets.append(len(values))
    return Rows(name, _ints(lines), _ints(offsets), _ints(values), tuple(comments), len(text))


def _append_numbers(values: "array[int]", content: str, name: str, line: int) -> None:
    # int() also takes 1_000 and the digits of every script; no other reader of these files does.
    if content.isascii() and "_" not in content:
        try:
            values.extend(map(int, content.split()))
            return
        except (ValueError, OverflowError):
            pass
    wrong = next((word for word in content.split() if not _NUMBER.fullmatch(word)), content)
    raise line_fault(name, line, f"{wrong[:40]!r} is not a whole number of at most 18 digits")


def _ints(values: "array[int]") -> Ints:
    return np.array(values, dtype=np.int64)
