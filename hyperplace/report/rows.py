"""The rows of a comparison in reading order, with the label and the mark each one gets in a table."""

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


def mark(row: ComparisonRow, comparison: Comparison) -> str:
    """Return `over` for a row that misses its limit, `best` for the lowest training volume of its k and imbalance.

    A method without a limit competes under every limit it happens to meet, and is marked with those it wins at.
    """
    if row.feasible is False or not row.has_figures:
        return limit_word(row)
    limits = sorted({other.imbalance for other in comparison.rows if other.imbalance is not None})
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
