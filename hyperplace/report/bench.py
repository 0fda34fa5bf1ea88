"""How fast a model trains, as a table for the terminal, as text, Markdown and CSV."""

import csv
import io
from dataclasses import asdict, fields
from statistics import median
from typing import TYPE_CHECKING, Any

from hyperplace.report.tables import MIB, NOTHING, markdown_table
from hyperplace.report.terminal import TerminalTable
from hyperplace.values.bench import Bench, BenchRow

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import RenderableType

TEXT_WIDTH = 120
SPARE = ("predicted", "moved", "spread")
FIGURES = ("median", "spread", "speed_up_1_thread", "speed_up_k_threads")


def bench_table(bench: Bench) -> "pd.DataFrame":
    """Return a row per method: medians, how far the repeats spread, and how many times as fast as the plain loops."""
    import pandas as pd

    rows = bench.rows
    table = pd.DataFrame({"method": [row.method for row in rows], "schedule": [row.schedule for row in rows]})
    table["images/s"] = [row.median if row.images_per_s else NOTHING for row in rows]
    table["spread %"] = [100 * row.spread if row.images_per_s else NOTHING for row in rows]
    table["x 1 thread"] = [_speed_up(bench, row, bench.rows[0]) for row in rows]
    table["x k threads"] = [_speed_up(bench, row, bench.threaded) for row in rows]
    table["bubble %"] = [NOTHING if row.bubble is None else 100 * row.bubble for row in rows]
    table["moved MiB"] = [NOTHING if row.moved_bytes is None else row.moved_bytes / MIB for row in rows]
    table["predicted MiB"] = [NOTHING if row.predicted_bytes is None else row.predicted_bytes / MIB for row in rows]
    return table


def _speed_up(bench: Bench, row: BenchRow, base: BenchRow) -> float:
    return bench.speed_up(row, base) if row.images_per_s else NOTHING


def render_bench(bench: Bench) -> "RenderableType":
    """Return the table with its conditions and notes for the terminal."""
    from rich.console import Group
    from rich.text import Text

    notes = [Text(note, style="dim") for note in bench_notes(bench)]
    table = TerminalTable(bench_table(bench), spare=SPARE)
    return Group(Text(conditions(bench), style="bold"), Text(), table, *notes)


def bench_text(bench: Bench) -> str:
    """Return what the terminal shows, without colour and wide enough for every column."""
    from rich.console import Console

    file = io.StringIO()
    Console(file=file, width=TEXT_WIDTH, color_system=None).print(render_bench(bench))
    return "".join(line.rstrip() + "\n" for line in file.getvalue().splitlines())


def bench_markdown(bench: Bench, command: str) -> str:
    """Return the command that made it, the conditions, the table and its notes."""
    notes = "".join(f"- {note}\n" for note in bench_notes(bench))
    return f"```sh\n{command}\n```\n\n{conditions(bench)}\n\n{markdown_table(bench_table(bench))}\n{notes}"


def bench_csv(bench: Bench) -> str:
    """Return every row with every digit; all repeats of a row in one cell, in order."""
    common = [field.name for field in fields(Bench) if field.name not in ("rows", "inputs")]
    columns = [*(field.name for field in fields(BenchRow)), *FIGURES, *common]
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: getattr(bench, name) for name in common} | _record(bench, row) for row in bench.rows)
    return text.getvalue()


def _record(bench: Bench, row: BenchRow) -> dict[str, Any]:
    record = asdict(row) | {"images_per_s": " ".join(map(repr, row.images_per_s))}
    if not row.images_per_s:
        return record
    against = (bench.speed_up(row, base) for base in (bench.rows[0], bench.threaded))
    return record | dict(zip(FIGURES, (row.median, row.spread, *against), strict=True))


def conditions(bench: Bench) -> str:
    """Say what was measured on what."""
    inputs = " and ".join("x".join(map(str, shape)) for shape in bench.inputs)
    repeats = len(bench.rows[0].images_per_s)
    return (
        f"{bench.model}, {inputs}, batch {bench.batch}, k={bench.k}; medians of {repeats} repeats of {bench.steps} "
        f"mini-batches, all methods by turns; plans by {bench.costs} costs, imbalance {bench.imbalance:g}; "
        f"every part on {bench.machine}"
    )


def bench_notes(bench: Bench) -> list[str]:
    """Explain the columns where the table does not, and name what could not be measured."""
    widest = median(row.spread for row in bench.rows if row.images_per_s)
    notes = [
        f"spread: fastest - slowest repeat, of the median; {100 * widest:.1f}% for the middle one of these rows",
        "bubble: share of the time in which a part computes nothing; MiB: between parts per mini-batch, both ways",
    ]
    if bench.num_cores < bench.k:
        notes.append(f"{bench.k} parts shared {bench.num_cores} cores here, so more than that cannot be gained")
    reasons = dict.fromkeys((row.method, row.note) for row in bench.rows if row.note)
    return notes + [f"{method}: {note}" for method, note in reasons]
