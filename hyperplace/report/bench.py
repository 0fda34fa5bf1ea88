"""How fast a model trains, as a table with its conditions."""

from collections.abc import Callable
from dataclasses import asdict, fields
from statistics import median

from hyperplace.report.document import Column, Document, Section, Table, Text, Value, notes
from hyperplace.report.timeline import timeline_section
from hyperplace.values.bench import Bench, BenchRow
from hyperplace.values.sizes import MIB
from hyperplace.values.timeline import Timeline

FIGURES = ("median", "spread", "speed_up_1_thread", "speed_up_k_threads")


def bench_document(bench: Bench, timeline: Timeline | None = None) -> Document:
    """Return the table with its notes, and what the fastest plan did with its time in the steady state."""
    sections = [Section((bench_table(bench), *notes(bench_notes(bench))))]
    if timeline and bench.best:
        title = f"{bench.best.method} {bench.best.schedule}, the fastest plan, in the steady state"
        sections.append(timeline_section(timeline, title))
    return Document((Text(conditions(bench), "head"),), tuple(sections), records(bench))


def bench_table(bench: Bench) -> Table:
    """Return a row per method: medians, how far the repeats spread, and how many times as fast as the plain loops."""
    rows = bench.rows

    def measured(value: Callable[[BenchRow], float]) -> list[Value]:
        return [value(row) if row.images_per_s else None for row in rows]

    return Table(
        (
            Column.words("method", [row.method for row in rows]),
            Column.words("schedule", [row.schedule for row in rows]),
            Column.numbers("images/s", measured(lambda row: row.median)),
            Column.numbers("spread", measured(lambda row: 100 * row.spread), "%", spare=3),
            Column.numbers("x 1 thread", measured(lambda row: bench.speed_up(row, rows[0])), form=",.2f"),
            Column.numbers("x k threads", measured(lambda row: bench.speed_up(row, bench.threaded)), form=",.2f"),
            *(_time_columns(bench) if _has_predictions(bench) else ()),
            Column.numbers("bubble", [None if row.bubble is None else 100 * row.bubble for row in rows], "%"),
            Column.numbers("moved", [_mib(row.moved_bytes) for row in rows], "MiB", spare=2),
            Column.numbers("predicted", [_mib(row.predicted_bytes) for row in rows], "MiB", spare=1),
        )
    )


def _has_predictions(bench: Bench) -> bool:
    return any(row.predicted_us is not None for row in bench.rows)


def _time_columns(bench: Bench) -> tuple[Column, Column]:
    """Return how long a mini-batch took, and how long the schedule says it takes."""
    took = [1e3 * bench.batch / row.median if row.images_per_s else None for row in bench.rows]
    predicted = [None if row.predicted_us is None else row.predicted_us / 1e3 for row in bench.rows]
    return Column.numbers("mini-batch", took, "ms"), Column.numbers("predicted", predicted, "ms")


def _mib(num_bytes: float | None) -> float | None:
    return None if num_bytes is None else num_bytes / MIB


def records(bench: Bench) -> Table:
    """Return every row with every digit; all repeats of a row in one cell, in order."""
    common = [field.name for field in fields(Bench) if field.name not in ("rows", "inputs")]
    names = [*(field.name for field in fields(BenchRow)), *FIGURES, *common]
    lines = [{name: getattr(bench, name) for name in common} | _record(bench, row) for row in bench.rows]
    return Table(tuple(Column(name, tuple(line.get(name) for line in lines)) for name in names))


def _record(bench: Bench, row: BenchRow) -> dict[str, Value]:
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
    if _has_predictions(bench):
        notes.append("predicted ms: a mini-batch by the schedule of measured layers, if messages took no time")
    if bench.num_cores < bench.k:
        notes.append(f"{bench.k} parts shared {bench.num_cores} cores here, so more than that cannot be gained")
    reasons = dict.fromkeys((row.method, row.note) for row in bench.rows if row.note)
    return notes + [f"{method}: {note}" for method, note in reasons]
