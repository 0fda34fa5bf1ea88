"""A comparison as text: for the terminal, as Markdown to keep, as CSV with every digit."""

import csv
import io
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any

from hyperplace.report.comparison_tables import epoch_table, volume_table, work_table
from hyperplace.report.curves import comparison_figure
from hyperplace.report.footnotes import conditions, epoch_notes, volume_notes, work_notes
from hyperplace.report.rows import mark, ordered_rows
from hyperplace.report.tables import markdown_table
from hyperplace.report.terminal import TerminalTable
from hyperplace.report.thesis import ThesisVolume, ThesisWork, thesis_volume, thesis_work
from hyperplace.values.comparison import FIGURES, Comparison, ComparisonRow

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import RenderableType

__all__ = [
    "comparison_csv",
    "comparison_figure",
    "comparison_markdown",
    "comparison_text",
    "epoch_table",
    "render_comparison",
    "volume_table",
    "work_table",
]

TEXT_WIDTH = 160
# What a narrow terminal can do without, dearest last.
SPARE = (
    "avg",
    "max x k",
    "data parallel MiB",
    "most per part",
    "thesis max/min",
    "thesis data",
    "min",
    "max ",
    "training",
)
RATIOS = ("max_over_min", "max_over_avg", "max_times_k", "training_over_data_parallel")


@dataclass(frozen=True)
class _Section:
    title: str
    table: "pd.DataFrame"
    notes: list[str]


def render_comparison(comparison: Comparison) -> "RenderableType":
    """Return the three tables with their notes for the terminal."""
    from rich.console import Group
    from rich.text import Text

    shown: list[RenderableType] = [Text(conditions(comparison), style="bold")]
    for section in _sections(comparison):
        shown += [Text(), TerminalTable(section.table, section.title, ("k", "imbalance"), SPARE)]
        shown += [Text(note, style="dim") for note in section.notes]
    return Group(*shown)


def comparison_text(comparison: Comparison) -> str:
    """Return what the terminal shows, without colour and wide enough for every column."""
    from rich.console import Console

    file = io.StringIO()
    Console(file=file, width=TEXT_WIDTH, color_system=None).print(render_comparison(comparison))
    return "".join(line.rstrip() + "\n" for line in file.getvalue().splitlines())


def comparison_markdown(comparison: Comparison, command: str) -> str:
    """Return the command that made the comparison, then the three tables with their notes."""
    text = f"```sh\n{command}\n```\n\n{conditions(comparison)}.\n"
    for section in _sections(comparison):
        notes = "".join(f"- {note}\n" for note in section.notes)
        text += f"\n## {section.title}\n\n{markdown_table(section.table)}\n{notes}"
    return text


def comparison_csv(*comparisons: Comparison) -> str:
    """Return every row with every digit: bytes, work in the row's own unit, then the thesis's figures."""
    lines = [_record(row, comparison) for comparison in comparisons for row in ordered_rows(comparison)]
    text = io.StringIO()
    writer = csv.DictWriter(text, _csv_columns(), lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return text.getvalue()


def _sections(comparison: Comparison) -> Iterator[_Section]:
    yield _Section("Work per part", work_table(comparison), work_notes(comparison))
    yield _Section("Communication volume per mini-batch", volume_table(comparison), volume_notes(comparison))
    epochs = epoch_table(comparison)
    if len(epochs):
        yield _Section("One epoch against data parallelism", epochs, epoch_notes(comparison, epochs))


def _csv_columns() -> list[str]:
    own = [f.name for f in fields(ComparisonRow)]
    common = [f.name for f in fields(Comparison) if f.name not in ("model", "rows")]
    theirs = [f"thesis_{f.name}" for kind in (ThesisWork, ThesisVolume) for f in fields(kind)]
    return [*own, *RATIOS, "mark", *common, *theirs]


def _record(row: ComparisonRow, comparison: Comparison) -> dict[str, Any]:
    """Return a line of the CSV; what is not known is left empty."""
    record = dict.fromkeys(_csv_columns(), "") | asdict(row) | {name: getattr(row, name) for name in RATIOS}
    if not row.has_figures:
        record |= dict.fromkeys((*FIGURES, *RATIOS), "")
    record["mark"] = mark(row, comparison)
    for field in fields(Comparison):
        if field.name in record and field.name != "model":
            record[field.name] = getattr(comparison, field.name)
    for figures in (thesis_work(row), thesis_volume(row, comparison.batch)):
        if figures:
            record |= {f"thesis_{name}": value for name, value in asdict(figures).items()}
    return record
