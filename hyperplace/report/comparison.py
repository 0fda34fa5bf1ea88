"""A comparison as the thesis's tables: work, volume, and an epoch against data parallelism; and over k as curves.

The thesis's own figures stand beside ours where it has them; its columns are left out where it has none.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, fields

from hyperplace.report.curves import comparison_figure
from hyperplace.report.document import Column, Document, Figure, Section, Table, Text, Value, notes
from hyperplace.report.rows import (
    conditions,
    epoch_notes,
    is_over,
    label,
    limit_word,
    limits_of,
    mark,
    ordered_rows,
    volume_notes,
    work_notes,
)
from hyperplace.report.thesis import Figures, ThesisVolume, ThesisWork, thesis_epoch, thesis_volume, thesis_work
from hyperplace.report.work import work_scale
from hyperplace.values.comparison import FIGURES, Comparison, ComparisonRow
from hyperplace.values.sizes import byte_scale

GIB = 2**30
EPOCH_IMAGES = 64_000
EPOCH_BATCHES = (16, 32, 64)
RATIOS = ("max_over_min", "max_over_avg", "max_times_k", "training_over_data_parallel")


def comparison_document(comparison: Comparison) -> Document:
    """Return the three tables with their notes, the curves, and every row with every digit."""
    epochs = epoch_table(comparison)
    sections = [
        Section((work_table(comparison), *notes(work_notes(comparison))), "Work per part"),
        Section((volume_table(comparison), *notes(volume_notes(comparison))), "Communication volume per mini-batch"),
    ]
    if len(epochs):
        sections.append(
            Section((epochs, *notes(epoch_notes(comparison, epochs))), "One epoch against data parallelism")
        )
    sections.append(Section((_curves(comparison),)))
    return Document((Text(conditions(comparison), "head"),), tuple(sections), records([comparison]))


def _curves(comparison: Comparison) -> Figure:
    ks = ", ".join(str(k) for k in sorted({row.k for row in comparison.rows}))
    return Figure(
        name="comparison",
        caption="Training volume and balance of every method over k; hollow: over the limit.",
        alt=f"Curves of training volume and max/avg of {comparison.model} for k = {ks}, as in the tables above",
        draw=lambda: comparison_figure(comparison),
    )


def work_table(comparison: Comparison) -> Table:
    """Return the balance of work, a row per k, imbalance and method."""
    rows = ordered_rows(comparison)
    scale = work_scale((row.avg_work, row.work_unit) for row in rows if row.has_figures)
    theirs = [thesis_work(row) for row in rows]

    def work(of: Callable[[ComparisonRow], float]) -> list[Value]:
        return _known(rows, lambda row: scale.of(of(row), row.work_unit))

    return _without_empty(
        *_keys(rows, comparison),
        Column.numbers("max", work(lambda row: row.max_work), scale.name, spare=8),
        Column.numbers("min", work(lambda row: row.min_work), scale.name, spare=7),
        Column.numbers("avg", work(lambda row: row.avg_work), scale.name, spare=1),
        Column.numbers("max/min", _known(rows, lambda row: row.max_over_min), form=",.3f"),
        Column.numbers("max/avg", _known(rows, lambda row: row.max_over_avg), form=",.3f"),
        Column.numbers("max x k", work(lambda row: row.max_times_k), scale.name, spare=2),
        Column.numbers("thesis max/min", _printed(theirs, lambda figures: figures.max_over_min), spare=5),
        Column.numbers("thesis max/avg", _printed(theirs, lambda figures: figures.max_over_avg)),
        Column.flags("limit", map(limit_word, rows)),
        greyed=_over(rows, comparison),
    )


def volume_table(comparison: Comparison) -> Table:
    """Return the bytes that cross between parts per mini-batch, a row per k, imbalance and method."""
    rows = ordered_rows(comparison)
    scale = byte_scale(row.training_volume_bytes for row in rows if row.has_figures)
    theirs = [thesis_volume(row, comparison.batch) for row in rows]
    copied = _known(rows, lambda row: _percent(row.training_volume_bytes, row.data_parallel_bytes))
    return _without_empty(
        *_keys(rows, comparison),
        Column.numbers("forward", _known(rows, lambda row: scale.of(row.volume_bytes)), scale.name),
        Column.numbers("bound", [scale.of(row.bound_bytes) if row.bound_bytes else None for row in rows], scale.name),
        Column.numbers("gap", map(_gap, rows), "%"),
        Column.numbers("most per part", _known(rows, lambda row: scale.of(row.max_part_bytes)), scale.name, spare=4),
        Column.numbers("training", _known(rows, lambda row: scale.of(row.training_volume_bytes)), scale.name, spare=9),
        Column.numbers("data parallel", [scale.of(row.data_parallel_bytes) for row in rows], scale.name, spare=3),
        Column.numbers("% of data parallel", copied),
        Column.numbers("thesis forward", _printed(theirs, lambda figures: figures.volume_mib), "MiB"),
        Column.numbers("search", [row.seconds or None for row in rows], "s", spare=2),
        Column.flags("mark", [mark(row, comparison) for row in rows]),
        greyed=_over(rows, comparison),
    )


def epoch_table(comparison: Comparison) -> Table:
    """Return Table 5.14: data parallelism and the coarse grain for an epoch of 64,000 images.

    What the coarse grain moves per image does not depend on the batch; data parallelism moves the
    parameters once per iteration.
    """
    coarse = [row for row in ordered_rows(comparison) if row.method == "coarse" and row.k > 1]
    cases = [(row, batch) for row in coarse for batch in EPOCH_BATCHES]
    rows = [row for row, _ in cases]
    k, imbalance, method = _keys(rows, comparison)
    copied = [row.data_parallel_bytes * (EPOCH_IMAGES // batch) / GIB for row, batch in cases]
    moved = _known(rows, lambda row: row.training_volume_bytes * EPOCH_IMAGES / comparison.batch / GIB)
    less = [
        None if ours is None else 100 - 100 * float(ours) / every for ours, every in zip(moved, copied, strict=True)
    ]
    theirs = [thesis_epoch(row, batch) for row, batch in cases]
    return _without_empty(
        k,
        imbalance,
        Column.numbers("batch", [batch for _, batch in cases]),
        *([] if set(method.values) <= {"coarse"} else [method]),
        Column.numbers("data parallel", copied, "GiB", spare=3),
        Column.numbers("coarse", moved, "GiB"),
        Column.numbers("less", less, "%"),
        Column.numbers(
            "thesis data parallel", _printed(theirs, lambda figures: figures.data_parallel_gib), "GiB", spare=6
        ),
        Column.numbers("thesis coarse", _printed(theirs, lambda figures: figures.coarse_gib), "GiB"),
        Column.numbers("thesis less", _printed(theirs, lambda figures: figures.reduction_percent), "%"),
        Column.flags("limit", map(limit_word, rows)),
    )


def _keys(rows: list[ComparisonRow], comparison: Comparison) -> tuple[Column, Column, Column]:
    return (
        Column.numbers("k", [row.k for row in rows], is_key=True),
        Column.numbers("imbalance", [row.imbalance for row in rows], form="g", is_key=True),
        Column.words("method", [label(row, comparison) for row in rows]),
    )


def _known(rows: list[ComparisonRow], value: Callable[[ComparisonRow], Value]) -> list[Value]:
    """Return a value per row; a method that failed has none."""
    return [value(row) if row.has_figures else None for row in rows]


def _printed(theirs: "list[Figures | None]", value: "Callable[[Figures], float]") -> list[Value]:
    """Return what the thesis printed of every row."""
    return [None if figures is None else value(figures) for figures in theirs]


def _gap(row: ComparisonRow) -> float | None:
    return 100 * row.judged_bytes / row.bound_bytes - 100 if row.bound_bytes else None


def _percent(amount: float, of_amount: float) -> float | None:
    return 100 * amount / of_amount if of_amount else None


def _over(rows: list[ComparisonRow], comparison: Comparison) -> frozenset[int]:
    """Return the rows that are hollow in the figure: a baseline over all limits competes with nobody."""
    limits = limits_of(comparison)
    return frozenset(number for number, row in enumerate(rows) if row.has_figures and is_over(row, limits))


def _without_empty(*columns: Column, greyed: frozenset[int] = frozenset()) -> Table:
    """Return the table without what has nothing to say: the thesis on other models, bounds nobody looked for."""
    optional = ("thesis", "bound", "gap", "search")
    return Table(tuple(c for c in columns if not (c.name.startswith(optional) and c.is_empty)), greyed)


def records(comparisons: Sequence[Comparison]) -> Table:
    """Return every row with every digit: bytes, work in the row's own unit, then the thesis's figures."""
    lines = [_record(row, comparison) for comparison in comparisons for row in ordered_rows(comparison)]
    return Table(tuple(Column(name, tuple(line.get(name) for line in lines)) for name in _record_columns()))


def _record_columns() -> list[str]:
    own = [f.name for f in fields(ComparisonRow)]
    common = [f.name for f in fields(Comparison) if f.name not in ("model", "rows")]
    theirs = [f"thesis_{f.name}" for kind in (ThesisWork, ThesisVolume) for f in fields(kind)]
    return [*own, *RATIOS, "mark", *common, *theirs]


def _record(row: ComparisonRow, comparison: Comparison) -> dict[str, Value]:
    """Return what is known of a row."""
    record: dict[str, Value] = {f.name: getattr(comparison, f.name) for f in fields(Comparison) if f.name != "rows"}
    record |= asdict(row) | {name: getattr(row, name) for name in RATIOS} | {"mark": mark(row, comparison)}
    if not row.has_figures:
        record |= dict.fromkeys((*FIGURES, *RATIOS))
    for figures in (thesis_work(row), thesis_volume(row, comparison.batch)):
        if figures:
            record |= {f"thesis_{name}": value for name, value in asdict(figures).items()}
    return record
