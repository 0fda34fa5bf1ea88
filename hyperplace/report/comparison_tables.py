"""A comparison as the thesis's tables: work, volume, and an epoch against data parallelism.

The thesis's own figures stand beside ours where it has them; its columns are left out where it has none.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from hyperplace.report.rows import label, limit_word, mark, ordered_rows
from hyperplace.report.tables import GIB, MIB, NOTHING
from hyperplace.report.thesis import thesis_epoch, thesis_volume, thesis_work
from hyperplace.report.work import work_scale
from hyperplace.values.comparison import Comparison, ComparisonRow

if TYPE_CHECKING:
    import pandas as pd

EPOCH_IMAGES = 64_000
EPOCH_BATCHES = (16, 32, 64)


def work_table(comparison: Comparison) -> "pd.DataFrame":
    """Return the balance of work, a row per k, imbalance and method."""
    rows = ordered_rows(comparison)
    scale = work_scale((row.avg_work, row.work_unit) for row in rows if row.has_figures)
    table = _keys(rows, comparison)
    table[f"max {scale.name}"] = _known(rows, lambda row: scale.of(row.max_work, row.work_unit))
    table[f"min {scale.name}"] = _known(rows, lambda row: scale.of(row.min_work, row.work_unit))
    table[f"avg {scale.name}"] = _known(rows, lambda row: scale.of(row.avg_work, row.work_unit))
    table["max/min"] = _known(rows, lambda row: row.max_over_min)
    table["max/avg"] = _known(rows, lambda row: row.max_over_avg)
    table[f"max x k {scale.name}"] = _known(rows, lambda row: scale.of(row.max_times_k, row.work_unit))
    theirs = [thesis_work(row) for row in rows]
    table["thesis max/min"] = [figures.max_over_min if figures else NOTHING for figures in theirs]
    table["thesis max/avg"] = [figures.max_over_avg if figures else NOTHING for figures in theirs]
    table["limit"] = [limit_word(row) for row in rows]
    return _without_empty(table)


def volume_table(comparison: Comparison) -> "pd.DataFrame":
    """Return the bytes that cross between parts per mini-batch, a row per k, imbalance and method."""
    rows = ordered_rows(comparison)
    table = _keys(rows, comparison)
    table["forward MiB"] = _known(rows, lambda row: row.volume_bytes / MIB)
    table["bound MiB"] = [row.bound_bytes / MIB if row.bound_bytes else NOTHING for row in rows]
    table["gap %"] = [_percent(row.judged_bytes, row.bound_bytes) - 100 if row.bound_bytes else NOTHING for row in rows]
    table["most per part MiB"] = _known(rows, lambda row: row.max_part_bytes / MIB)
    table["training MiB"] = _known(rows, lambda row: row.training_volume_bytes / MIB)
    table["data parallel MiB"] = [row.data_parallel_bytes / MIB for row in rows]
    table["% of data parallel"] = _known(rows, lambda row: _percent(row.training_volume_bytes, row.data_parallel_bytes))
    theirs = [thesis_volume(row, comparison.batch) for row in rows]
    table["thesis forward MiB"] = [figures.volume_mib if figures else NOTHING for figures in theirs]
    table["mark"] = [mark(row, comparison) for row in rows]
    return _without_empty(table)


def epoch_table(comparison: Comparison) -> "pd.DataFrame":
    """Return Table 5.14: data parallelism and the coarse grain for an epoch of 64,000 images.

    What the coarse grain moves per image does not depend on the batch; data parallelism moves the
    parameters once per iteration.
    """
    coarse = [row for row in ordered_rows(comparison) if row.method == "coarse" and row.k > 1]
    cases = [(row, batch) for row in coarse for batch in EPOCH_BATCHES]
    rows = [row for row, _ in cases]
    table = _keys(rows, comparison)
    if set(table["method"]) == {"coarse"}:
        table = table.drop(columns=["method"])
    table.insert(2, "batch", [batch for _, batch in cases])
    copied = [row.data_parallel_bytes * (EPOCH_IMAGES // batch) / GIB for row, batch in cases]
    moved = _known(rows, lambda row: row.training_volume_bytes * EPOCH_IMAGES / comparison.batch / GIB)
    table["data parallel GiB"] = copied
    table["coarse GiB"] = moved
    table["less %"] = [100 - _percent(ours, every) for ours, every in zip(moved, copied, strict=True)]
    theirs = [thesis_epoch(row, batch) for row, batch in cases]
    table["thesis data parallel GiB"] = [f.data_parallel_gib if f else NOTHING for f in theirs]
    table["thesis coarse GiB"] = [f.coarse_gib if f else NOTHING for f in theirs]
    table["thesis less %"] = [f.reduction_percent if f else NOTHING for f in theirs]
    table["limit"] = [limit_word(row) for row in rows]
    return _without_empty(table)


def _keys(rows: list[ComparisonRow], comparison: Comparison) -> "pd.DataFrame":
    import pandas as pd

    return pd.DataFrame(
        {
            "k": [row.k for row in rows],
            "imbalance": [NOTHING if row.imbalance is None else row.imbalance for row in rows],
            "method": [label(row, comparison) for row in rows],
        }
    )


def _known(rows: list[ComparisonRow], value: Callable[[ComparisonRow], float]) -> list[float]:
    """Return a value per row; a method that failed has none."""
    return [value(row) if row.has_figures else NOTHING for row in rows]


def _percent(amount: float, of_amount: float) -> float:
    return 100 * amount / of_amount if of_amount else NOTHING


def _without_empty(table: "pd.DataFrame") -> "pd.DataFrame":
    """Drop the columns of the thesis and of the bounds where they have nothing to say about this model."""
    optional = ("thesis", "bound", "gap")
    empty = [name for name in table.columns if name.startswith(optional) and table[name].isna().all()]
    return table.drop(columns=empty)
