"""What stands beside the figures of a comparison: the order of its rows, labels, marks, and the notes on its tables."""

from statistics import mean

from hyperplace.report.document import Table
from hyperplace.report.thesis import BATCH, EPOCH_IMBALANCE, MODEL
from hyperplace.values.comparison import METHOD_NAMES, Comparison, ComparisonRow


def ordered_rows(comparison: Comparison) -> list[ComparisonRow]:
    """Return the rows by k, then those without a limit, then by imbalance, each in the thesis's order of methods."""
    return sorted(comparison.rows, key=order_of)


def order_of(row: ComparisonRow) -> tuple[int, float, int, str, str]:
    """Return what rows are sorted by."""
    imbalance = -1.0 if row.imbalance is None else row.imbalance
    place = METHOD_NAMES.index(row.method) if row.method in METHOD_NAMES else len(METHOD_NAMES)
    return row.k, imbalance, place, row.method, row.partitioner


def label(row: ComparisonRow, comparison: Comparison) -> str:
    """Return the method, with its partitioner where the comparison holds more than one for it."""
    partitioners = {other.partitioner for other in comparison.rows if other.method == row.method}
    return row.method if len(partitioners) == 1 else f"{row.method} ({row.partitioner})"


def limit_word(row: ComparisonRow) -> str:
    """Return how a row stands to its own limit."""
    if not row.has_figures:
        return "no result"
    return "" if row.feasible is None else "met" if row.feasible else "over"


def limits_of(comparison: Comparison) -> list[float]:
    """Return the imbalances that methods of a comparison had to meet."""
    return sorted({row.imbalance for row in comparison.rows if row.imbalance is not None})


def is_over(row: ComparisonRow, limits: list[float]) -> bool:
    """Say whether a row misses its limit, or, where it has none of its own, all that the others have."""
    return row.feasible is False or (row.imbalance is None and bool(limits) and not row.meets(max(limits)))


def mark(row: ComparisonRow, comparison: Comparison) -> str:
    """Return `over` for a row that misses its limit, `best` for the lowest training volume of its k and imbalance.

    A method without a limit competes under every limit it happens to meet, and is marked with those it wins at.
    """
    if row.feasible is False or not row.has_figures:
        return limit_word(row)
    limits = limits_of(comparison)
    own = limits if row.imbalance is None else [row.imbalance]
    won = [limit for limit in own if _is_best(row, limit, comparison)]
    if row.imbalance is not None or not won:
        return "best" if won else ""
    return "best at " + ", ".join(f"{limit:g}" for limit in won)


def _is_best(row: ComparisonRow, limit: float, comparison: Comparison) -> bool:
    volumes = [other.training_volume_bytes for other in comparison.rows if other.k == row.k and competes(other, limit)]
    return competes(row, limit) and row.training_volume_bytes == min(volumes)


def competes(row: ComparisonRow, limit: float) -> bool:
    """Return whether a row counts under a limit: it was made for it and meets it, or it has none and happens to."""
    return row.meets(limit) if row.imbalance is None else row.imbalance == limit and bool(row.feasible)


def conditions(comparison: Comparison) -> str:
    """Return what all rows have in common."""
    return f"{comparison.model} ({shared_conditions(comparison)}, {comparison.parameter_bytes:,} parameter bytes)"


def shared_conditions(comparison: Comparison) -> str:
    """Return what rows of other models may have in common too."""
    blocks = "all" if comparison.blocks is None else comparison.blocks
    words = f"batch {comparison.batch}, costs {comparison.costs}, blocks {blocks}, fc {comparison.fc}"
    return words + _hybrid_words(comparison)


def _hybrid_words(comparison: Comparison) -> str:
    """Return what is asked of the hybrid grain, where it is not the default."""
    rows = f", row blocks {comparison.row_blocks}" if comparison.row_blocks != Comparison.row_blocks else ""
    norms = f", batch norm {comparison.batch_norm}" if comparison.batch_norm != Comparison.batch_norm else ""
    return rows + norms


def work_notes(comparison: Comparison) -> list[str]:
    """Return the notes under the work table."""
    notes = ["limit: `over` means that the heaviest part exceeds (1 + imbalance) x the average."]
    if comparison.model == MODEL:
        notes.append(
            "The thesis measured work in time of its own machine, so only ratios compare; "
            "it cuts them to one decimal (3177 / 2688 is printed as 1.1), ours are rounded."
        )
    return notes + _row_notes(comparison)


def volume_notes(comparison: Comparison) -> list[str]:
    """Return the notes under the volume table."""
    notes = [
        "mark: `best` is the lowest training volume within the limit for this k and imbalance, "
        "baselines that happen to meet it included; `over` misses its limit.",
        "Most per part is what the busiest part sends and receives forward. Data parallelism moves "
        "2 (k - 1) x the parameter bytes per iteration; the training volume is compared with it.",
    ]
    if any(row.grain == "hybrid" and row.bound_bytes for row in comparison.rows):
        notes.append("The bound of the hybrid grain holds among placements that split each layer one way.")
    if comparison.model == MODEL and comparison.batch == BATCH:
        notes.append(
            "The thesis's volume leaves out what goes from the first convolution to the second; "
            "ours counts every byte that crosses, so the two are not the same measure."
        )
    elif comparison.model == MODEL:
        notes.append(f"The thesis's volumes are for batch {BATCH} only and are left out here.")
    return notes


def epoch_notes(comparison: Comparison, table: Table) -> list[str]:
    """Return the notes under the epoch table, with the average reduction over the rows that meet their limit."""
    notes = ["An epoch is 64,000 images. What the parts exchange per image does not depend on the batch."]
    met = [row for row, word in enumerate(table["limit"]) if word == "met"]
    if met:
        less = mean(_figures(table, "less %", met))
        notes.append(f"On average {less:.1f} % less, over the {len(met)} rows within their limit.")
    if "thesis less %" in table.headings and (
        printed := [row for row in met if table["thesis less %"][row] is not None]
    ):
        ours, theirs = (mean(_figures(table, heading, printed)) for heading in ("less %", "thesis less %"))
        notes.append(
            f"Of these, {len(printed)} are in the thesis (imbalance {EPOCH_IMBALANCE:g}): "
            f"{ours:.1f} % less by our count, {theirs:.1f} % by its own, "
            "which leaves out the first convolution's output. Its GB are 2^30 bytes."
        )
    return notes


def _figures(table: Table, heading: str, rows: list[int]) -> list[float]:
    return [float(table[heading][row] or 0) for row in rows]


def _row_notes(comparison: Comparison) -> list[str]:
    return [
        f"k={row.k}, {label(row, comparison)}"
        + ("" if row.imbalance is None else f" at {row.imbalance:g}")
        + f": {row.note}"
        for row in ordered_rows(comparison)
        if row.note
    ]
