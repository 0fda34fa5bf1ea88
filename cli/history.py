"""How training went, as files: after every epoch the tables, at the end the curve too."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from .folder import write_figure

if TYPE_CHECKING:
    from hyperplace.values.history import HistoryRow

FILES = ("history.csv", "history.md", "history.png")


@dataclass(frozen=True)
class HistoryFiles:
    """The files of one command; `name` says what is trained on what."""

    folder: Path
    name: str

    def write(self, rows: "Sequence[HistoryRow]", *, with_figure: bool = False) -> None:
        from hyperplace.files.write import write_text
        from hyperplace.report.history import history_csv, history_figure, history_markdown
        from hyperplace.values.history import History

        history = History(self.name, tuple(rows))
        write_text(self.folder / FILES[0], history_csv(history))
        write_text(self.folder / FILES[1], history_markdown(history, " ".join(["hyperplace", *sys.argv[1:]])))
        if with_figure:
            write_figure(self.folder / FILES[2], history_figure(history))
