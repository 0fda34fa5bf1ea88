"""Comparisons of several models in one table: what every method moves in training, a row per model, k and imbalance."""

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING

from hyperplace.report.footnotes import shared_conditions
from hyperplace.report.rows import competes, ordered_rows
from hyperplace.report.tables import MIB, NOTHING, markdown_table
from hyperplace.report.terminal import TerminalTable
from hyperplace.values.comparison import METHOD_NAMES, Comparison, ComparisonRow

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import RenderableType

CHECKED = "hybrid"  # has all coarse placements and data parallelism among its candidates
TEXT_WIDTH = 200
NO_LIMIT = float("inf")  # where no method has one
Group = dict[str, ComparisonRow]  # method -> its row, for one model, k and imbalance


def overview_table(comparisons: Sequence[Comparison]) -> "pd.DataFrame":
    """Return training MiB by method, in brackets max/avg where over the limit, and who moves least within it."""
    import pandas as pd

    groups = _groups(comparisons)
    used = {method for _, _, group in groups for method in group}
    methods = [method for method in METHOD_NAMES if method in used]
    rows = [
        (
            model,
            next(iter(group.values())).k,
            limit if limit < NO_LIMIT else NOTHING,
            *(_cell(group.get(name), limit) for name in methods),
            least,
        )
        for (model, limit, group) in groups
        for least in [_least(group, limit)]
    ]
    return pd.DataFrame(rows, columns=["model", "k", "imbalance", *methods, "least"])


def overview_notes(comparisons: Sequence[Comparison]) -> list[str]:
    """Return how to read the table, and whether the hybrid grain is above anything that meets the same limit."""
    return [
        "MiB that cross between parts in a training iteration. In brackets max/avg of a placement over the limit: it "
        "does not count. least: the method that moves least within the limit.",
        *_check_notes(comparisons),
    ]


def render_overview(comparisons: Sequence[Comparison]) -> "RenderableType":
    """Return the table with its notes for the terminal."""
    from rich.console import Group as Lines
    from rich.text import Text

    head = Text(shared_conditions(comparisons[0]), style="bold")
    table = TerminalTable(overview_table(comparisons), "Training volume", ("model",), ("imbalance",))
    return Lines(head, Text(), table, *(Text(note, style="dim") for note in overview_notes(comparisons)))


def overview_text(comparisons: Sequence[Comparison]) -> str:
    """Return what the terminal shows, without colour and wide enough for every column."""
    from rich.console import Console

    file = io.StringIO()
    Console(file=file, width=TEXT_WIDTH, color_system=None).print(render_overview(comparisons))
    return "".join(line.rstrip() + "\n" for line in file.getvalue().splitlines())


def overview_markdown(comparisons: Sequence[Comparison], command: str) -> str:
    """Return the command that made the comparisons, then the table with its notes."""
    notes = "".join(f"- {note}\n" for note in overview_notes(comparisons))
    head = f"```sh\n{command}\n```\n\n{shared_conditions(comparisons[0])}.\n"
    return f"{head}\n{markdown_table(overview_table(comparisons))}\n{notes}"


def _groups(comparisons: Sequence[Comparison]) -> list[tuple[str, float, Group]]:
    """Return (model, imbalance, rows), in order; a method without a limit is in the groups of all limits."""
    groups: dict[tuple[str, int, float], Group] = {}
    for comparison in comparisons:
        limits = sorted({row.imbalance for row in comparison.rows if row.imbalance is not None}) or [NO_LIMIT]
        for row in ordered_rows(comparison):
            for limit in limits if row.imbalance is None else [row.imbalance]:
                groups.setdefault((comparison.model, row.k, limit), {})[row.method] = row
    return [(model, limit, group) for (model, _, limit), group in groups.items()]


def _cell(row: ComparisonRow | None, limit: float) -> str:
    if row is None:
        return ""
    if not row.has_figures:
        return "no result"
    over = "" if competes(row, limit) else f" ({row.max_over_avg:.2f})"
    moved = row.training_volume_bytes / MIB
    return (f"{moved:,.1f}" if moved >= 10 else f"{moved:.3g}") + over


def _least(group: Group, limit: float) -> str:
    """Return the method that moves least; where several do, the checked one."""
    met = [row for row in group.values() if competes(row, limit)]
    best = min(met, key=lambda row: (row.training_volume_bytes, row.method != CHECKED), default=None)
    return best.method if best else ""


def _check_notes(comparisons: Sequence[Comparison]) -> list[str]:
    above, count = [], 0
    for model, limit, group in _groups(comparisons):
        checked = group.get(CHECKED)
        if checked is None or not checked.has_figures:
            continue
        others = [row for row in group.values() if row is not checked and competes(row, limit)]
        count += 1
        above += [
            f"{CHECKED} is above {row.method} for {model} at k={row.k}, imbalance {limit:g}"
            for row in others
            if row.training_volume_bytes < checked.training_volume_bytes
        ]
    if above or not count:
        return above
    return [f"{CHECKED} is never above another method that meets the same limit: checked in {count} rows."]
