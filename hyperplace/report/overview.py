"""Comparisons of several models in one table: what every method moves in training, a row per model, k and imbalance."""

from collections.abc import Sequence

from hyperplace.report.comparison import records
from hyperplace.report.document import SHORT, Column, Document, Section, Table, Text, Value, notes
from hyperplace.report.rows import competes, ordered_rows, shared_conditions
from hyperplace.values.comparison import METHOD_NAMES, Comparison, ComparisonRow
from hyperplace.values.sizes import MIB

CHECKED = "hybrid"  # has all coarse placements and data parallelism among its candidates
NO_LIMIT = float("inf")  # where no method has one
Group = dict[str, ComparisonRow]  # method -> its row, for one model, k and imbalance


def overview_document(comparisons: Sequence[Comparison]) -> Document:
    """Return the table with its notes, and every row of every comparison."""
    section = Section((overview_table(comparisons), *notes(overview_notes(comparisons))), "Training volume")
    return Document((Text(shared_conditions(comparisons[0]), "head"),), (section,), records(comparisons))


def overview_table(comparisons: Sequence[Comparison]) -> Table:
    """Return training MiB by method, in brackets max/avg where over the limit, and who moves least within it."""
    groups = _groups(comparisons)
    used = {method for _, _, group in groups for method in group}
    limits = [limit if limit < NO_LIMIT else None for _, limit, _ in groups]
    return Table(
        (
            Column.words("model", [model for model, _, _ in groups], is_key=True),
            Column.numbers("k", [next(iter(group.values())).k for _, _, group in groups]),
            Column.numbers("imbalance", limits, form="g", spare=1),
            *(_column(method, groups) for method in METHOD_NAMES if method in used),
            Column.words("least", [_least(group, limit) for _, limit, group in groups]),
        )
    )


def _column(method: str, groups: list[tuple[str, float, Group]]) -> Column:
    rows = [(group.get(method), limit) for _, limit, group in groups]
    remarks = (
        f"{row.max_over_avg:.2f}" if row and row.has_figures and not competes(row, limit) else "" for row, limit in rows
    )
    return Column(method, tuple(_moved(row) for row, _ in rows), form=SHORT, remarks=tuple(remarks))


def _moved(row: ComparisonRow | None) -> Value:
    if row is None:
        return None
    return row.training_volume_bytes / MIB if row.has_figures else "no result"


def overview_notes(comparisons: Sequence[Comparison]) -> list[str]:
    """Return how to read the table, and whether the hybrid grain is above anything that meets the same limit."""
    return [
        "MiB that cross between parts in a training iteration. In brackets max/avg of a placement over the limit: it "
        "does not count. least: the method that moves least within the limit.",
        *_check_notes(comparisons),
    ]


def _groups(comparisons: Sequence[Comparison]) -> list[tuple[str, float, Group]]:
    """Return (model, imbalance, rows), in order; a method without a limit is in the groups of all limits."""
    groups: dict[tuple[str, int, float], Group] = {}
    for comparison in comparisons:
        limits = sorted({row.imbalance for row in comparison.rows if row.imbalance is not None}) or [NO_LIMIT]
        for row in ordered_rows(comparison):
            for limit in limits if row.imbalance is None else [row.imbalance]:
                groups.setdefault((comparison.model, row.k, limit), {})[row.method] = row
    return [(model, limit, group) for (model, _, limit), group in groups.items()]


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
