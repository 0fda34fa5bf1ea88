"""A document for the terminal, or as the text that one without colour shows.

A table fits the width without breaking a number: where there is no room, words wrap; where that is not enough, columns
are left out and a line below names them.
"""

import io
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

from hyperplace.report.document import FLAGS, Block, Column, Document, Figure, Section, Table, Text

if TYPE_CHECKING:
    from rich.console import Console, JustifyMethod
    from rich.table import Table as Drawn

GAP = 2
TONES = {"plain": "", "fact": "", "head": "bold", "note": "dim", "alarm": "bold red"}
STYLES = dict(zip(FLAGS, ("bold red", "bold red", "bold green"), strict=True))


def show(document: Document, console: "Console") -> None:
    """Print the document; a figure that has no form in characters is left to its file."""
    from rich.text import Text as Characters

    shown = [
        Section(document.head),
        *(replace(s, blocks=tuple(filter(_is_visible, s.blocks))) for s in document.sections),
    ]
    for number, section in enumerate(section for section in shown if section.blocks):
        if number:
            console.print()
        if section.title:
            console.print(Characters(section.title, style="bold"))
        for block in section.blocks:
            _show_block(block, console)


def _is_visible(block: Block) -> bool:
    return not isinstance(block, Figure) or block.characters is not None


def plain_text(document: Document, width: int) -> str:
    """Return what a terminal of this width shows, without colour."""
    from rich.console import Console

    file = io.StringIO()
    show(document, Console(file=file, width=width, color_system=None))
    return "".join(line.rstrip() + "\n" for line in file.getvalue().splitlines())


def _show_block(block: Block, console: "Console") -> None:
    from rich.text import Text as Characters

    if isinstance(block, Table):
        _show_table(block, console)
    elif isinstance(block, Figure):
        if block.characters:
            console.print(block.characters(console.width))
    else:
        console.print(Characters(block.text, style=TONES[block.tone]), soft_wrap=block.tone == "fact")


def _show_table(table: Table, console: "Console") -> None:
    fitting = _fitting(table, console.width)
    console.print(_drawn(fitting, _widths(fitting, console.width)))
    left_out = sorted((c for c in table.columns if c not in fitting.columns), key=lambda column: column.spare)
    if left_out:
        names = ", ".join(column.heading for column in left_out)
        _show_block(Text(f"left out at this width: {names}", "note"), console)


def _fitting(table: Table, width: int) -> Table:
    """Return the table without as many of its spare columns as must go; those of one number go together."""
    for spare in sorted({column.spare for column in table.columns} - {0}):
        if sum(widths := _widths(table, 0)) + GAP * (len(widths) - 1) <= width:
            break
        table = Table(tuple(column for column in table.columns if column.spare != spare), table.greyed)
    return table


def _drawn(table: Table, widths: list[int]) -> "Drawn":
    from rich import box
    from rich.table import Table as Drawn
    from rich.text import Text as Characters

    drawn = Drawn(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, collapse_padding=True)
    for column, width in zip(table.columns, widths, strict=True):
        justify: JustifyMethod = "right" if column.kind == "number" else "left"
        drawn.add_column(Characters(column.heading), justify=justify, width=width, overflow="fold")
    _add_rows(drawn, table)
    return drawn


def _add_rows(drawn: "Drawn", table: Table) -> None:
    """Add the rows: keys once per group, and a gap where the first of them changes."""
    from rich.text import Text as Characters

    keys = [index for index, column in enumerate(table.columns) if column.is_key]
    for before, row in pairwise([(), *table.rows]):
        group, last = [row[i] for i in keys], [before[i] for i in keys if before]
        if last and group[0] != last[0]:
            drawn.add_section()
        shown = ["" if i in keys and group == last else text for i, text in enumerate(row)]
        drawn.add_row(*map(Characters, shown, map(_style, table.columns, shown)))


def _style(column: Column, text: str) -> str:
    return STYLES.get(text.split(" ")[0], "") if column.kind == "flag" else ""


def _widths(table: Table, room: int) -> list[int]:
    """Return the columns' widths: no number or word is broken, and words stay on one line where there is room."""
    widths = [
        max(len(piece) for text in (column.heading, *column.cells) for piece in text.split() or [""])
        for column in table.columns
    ]
    for i, column in reversed(list(enumerate(table.columns))):  # the flags at the end first
        if column.kind != "number" or column.remarks:
            spare = room - sum(widths) - GAP * (len(widths) - 1)
            wish = max((len(text) for text in column.cells), default=0) - widths[i]
            widths[i] += max(0, min(spare, wish))
    return widths
