"""A DataFrame as a table for the terminal that fits its width without breaking a number.

Where there is no room, words wrap; where that is not enough, columns are left out and a line below names them.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from hyperplace.report.tables import cells, text_columns

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import Console, ConsoleOptions, JustifyMethod, RenderableType
    from rich.table import Table

GAP = 2
STYLES = {"over": "bold red", "no": "bold red", "best": "bold green"}


@dataclass(frozen=True)
class TerminalTable:
    """A renderable; `group_by` columns are written once per group, `spare` ones are left out first to last."""

    frame: "pd.DataFrame"
    title: str = ""
    group_by: tuple[str, ...] = ()
    spare: tuple[str, ...] = ()

    def __rich_console__(self, console: "Console", options: "ConsoleOptions") -> Iterator["RenderableType"]:
        from rich.text import Text

        frame, left_out = self.frame, []
        for name in (name for start in self.spare for name in self.frame.columns if name.startswith(start)):
            widths = _widths(frame, 0)
            if sum(widths) + GAP * (len(widths) - 1) <= options.max_width:
                break
            frame = frame.drop(columns=[name])
            left_out.append(str(name))
        yield self._table(frame, _widths(frame, options.max_width))
        if left_out:
            yield Text(f"left out at this width: {', '.join(left_out)}", style="dim")

    def _table(self, frame: "pd.DataFrame", widths: list[int]) -> "Table":
        from rich import box
        from rich.table import Table
        from rich.text import Text

        title = Text(self.title, style="bold") if self.title else None
        table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
        table.collapse_padding = True
        words = text_columns(frame)
        for name, width in zip(frame.columns, widths, strict=True):
            justify: JustifyMethod = "left" if name in words else "right"
            table.add_column(Text(str(name)), justify=justify, width=width, overflow="fold")
        _add_rows(table, frame, self.group_by)
        return table


def _add_rows(table: "Table", frame: "pd.DataFrame", group_by: tuple[str, ...]) -> None:
    """Add the rows, with a gap where the first column of the group changes."""
    from rich.text import Text

    names = [str(name) for name in frame.columns]
    keys = [index for index, name in enumerate(names) if name in group_by]
    for before, row in pairwise([[], *cells(frame)]):
        group, last = [row[i] for i in keys], [before[i] for i in keys if before]
        if last and group[0] != last[0]:
            table.add_section()
        shown = ["" if i in keys and group == last else text for i, text in enumerate(row)]
        table.add_row(*(Text(text, style=STYLES.get(text.split(" ")[0], "")) for text in shown))


def _widths(frame: "pd.DataFrame", room: int) -> list[int]:
    """Return the columns' widths: no number or word is broken, and words stay on one line where there is room."""
    words = text_columns(frame)
    written = [list(column) for column in zip(*cells(frame), strict=True)] or [[] for _ in frame.columns]
    names = [str(name) for name in frame.columns]
    widths = [
        max(len(piece) for text in [name, *column] for piece in text.split() or [""])
        for name, column in zip(names, written, strict=True)
    ]
    for i, column in reversed(list(enumerate(written))):  # the marks at the end first
        if names[i] in words:
            spare = room - sum(widths) - GAP * (len(widths) - 1)
            wish = max((len(text) for text in column), default=0) - widths[i]
            widths[i] += max(0, min(spare, wish))
    return widths
