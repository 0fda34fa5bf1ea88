"""A report before anybody writes it: sections of tables, figures and text, each with what its writers need to know.

    Plan, Comparison, Profile, Bench, Timeline, History -> Document -> terminal, Markdown, CSV

A noun's file decides what is said, a writer how it looks. Columns say their kind and unit, so that a writer can align,
sort, leave out and colour without reading headings.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from hyperplace.errors import HyperplaceError

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture
    from rich.text import Text as Characters

Value = str | int | float | None  # None: an empty cell
# words stand left; numbers stand right; a flag says in its first word how the row stands to its limit (see FLAGS).
Kind = Literal["words", "number", "flag"]
FLAGS = ("over", "no", "best")  # misses its limit, has no result, is the best of those that meet it
SHORT = "short"  # as a number's form: one decimal from 10 up, three digits below

# A fact is one line as it is, however long; an alarm is what a reader must not overlook.
Tone = Literal["plain", "fact", "head", "note", "alarm"]


@dataclass(frozen=True)
class Column:
    """One column with the values of all rows; `form` is a format specification for numbers that are not whole.

    A `spare` column may be left out where there is no room, those with the lowest number first; 0 is never left out.
    Rows of equal key columns belong together. A remark stands in brackets behind its value: this cell does not count.
    """

    name: str
    values: tuple[Value, ...]
    kind: Kind = "number"
    unit: str = ""
    form: str = ",.1f"
    spare: int = 0
    is_key: bool = False
    remarks: tuple[str, ...] = ()

    @classmethod
    def numbers(
        cls,
        name: str,
        values: Iterable[Value],
        unit: str = "",
        *,
        form: str = ",.1f",
        spare: int = 0,
        is_key: bool = False,
    ) -> "Column":
        return cls(name, tuple(values), "number", unit, form, spare, is_key)

    @classmethod
    def words(cls, name: str, values: Iterable[Value], *, is_key: bool = False) -> "Column":
        return cls(name, tuple(values), "words", is_key=is_key)

    @classmethod
    def flags(cls, name: str, values: Iterable[Value]) -> "Column":
        return cls(name, tuple(values), "flag")

    @property
    def heading(self) -> str:
        return f"{self.name} {self.unit}" if self.unit else self.name

    @property
    def is_empty(self) -> bool:
        return all(value is None for value in self.values)

    @cached_property
    def cells(self) -> tuple[str, ...]:
        """The values as they are written for people."""
        texts = (written(value, self.form) for value in self.values)
        if not self.remarks:
            return tuple(texts)
        return tuple(f"{text} ({note})" if note else text for text, note in zip(texts, self.remarks, strict=True))


def written(value: Value, form: str = ",.1f") -> str:
    """Return one value as it is written in a table."""
    if value is None or isinstance(value, str):
        return value or ""
    if isinstance(value, int):
        return f"{value:,}"
    if form == SHORT:
        form = ",.1f" if value >= 10 else ".3g"
    return f"{value:{form}}"


@dataclass(frozen=True)
class Table:
    """Columns of equal length under headings of their own."""

    columns: tuple[Column, ...]
    greyed: frozenset[int] = frozenset()  # rows that do not count, beside those that a flag says so of

    def __post_init__(self) -> None:
        if len({len(column.values) for column in self.columns}) > 1:
            raise HyperplaceError(f"not a table: columns of {[len(column.values) for column in self.columns]} rows")
        if twice := [name for name, count in Counter(self.headings).items() if count > 1]:
            raise HyperplaceError(f"not a table: two columns are headed {twice[0]!r}")

    def __getitem__(self, heading: str) -> tuple[Value, ...]:
        """Return the values under a heading."""
        return self.columns[self.headings.index(heading)].values

    def __len__(self) -> int:
        return len(self.columns[0].values) if self.columns else 0

    @property
    def headings(self) -> tuple[str, ...]:
        return tuple(column.heading for column in self.columns)

    @property
    def rows(self) -> Iterator[tuple[str, ...]]:
        """The rows as they are written for people."""
        return zip(*(column.cells for column in self.columns), strict=True)


@dataclass(frozen=True)
class Text:
    """A sentence or paragraph."""

    text: str
    tone: Tone = "plain"


@dataclass(frozen=True)
class Figure:
    """A picture: how to draw it, and what it says to whom it is not drawn.

    `name` is its file's, without the ending. `characters` draws it as text of a width, where that can be done.
    """

    name: str
    caption: str
    alt: str
    draw: Callable[[], "Picture"] = field(compare=False)
    characters: "Callable[[int], Characters] | None" = field(default=None, compare=False)


Block = Table | Figure | Text


@dataclass(frozen=True)
class Section:
    """What belongs together, in reading order."""

    blocks: tuple[Block, ...]
    title: str = ""


@dataclass(frozen=True)
class Document:
    """What is said first, the sections, and the same as data with every digit."""

    head: tuple[Text, ...]
    sections: tuple[Section, ...]
    data: Table

    @property
    def figures(self) -> tuple[Figure, ...]:
        return tuple(block for section in self.sections for block in section.blocks if isinstance(block, Figure))

    def without_figures(self) -> "Document":
        """Return the document while there is nothing worth a picture yet."""
        kept = [
            replace(section, blocks=tuple(block for block in section.blocks if not isinstance(block, Figure)))
            for section in self.sections
        ]
        return replace(self, sections=tuple(section for section in kept if section.blocks))


def notes(lines: Iterable[str]) -> tuple[Text, ...]:
    """Return the lines as notes."""
    return tuple(Text(line, "note") for line in lines)
