"""How fast a model trains, as tables with their conditions."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, fields
from statistics import median

from hyperplace.report.document import Column, Document, Section, Table, Text, Value, notes
from hyperplace.report.timeline import timeline_section
from hyperplace.values.bench import Bench, BenchRow
from hyperplace.values.sizes import MIB
from hyperplace.values.timeline import Timeline

FIGURES = ("median", "spread", "speed_up_1_thread", "speed_up_k_threads")


def bench_document(bench: Bench, timeline: Timeline | None = None) -> Document:
    """Return a table per batch size with notes, and what the fastest plan did with its time in the steady state."""
    if len(bench.batches) == 1:
        sections = [Section((bench_table(bench, bench.batches[0]), *notes(bench_notes(bench))))]
    else:
        sections = [Section((speed_table(bench),), "images/s by batch size")]
        sections += [Section((bench_table(bench, batch),), f"batch {batch}") for batch in bench.batches]
        sections.append(Section(notes(bench_notes(bench))))
    if timeline and bench.best:
        at = f", batch {bench.best.batch}" if len(bench.batches) > 1 else ""
        title = f"{bench.best.method} {bench.best.schedule}{at}, the fastest plan, in the steady state"
        sections.append(timeline_section(timeline, title))
    return Document((Text(conditions(bench), "head"),), tuple(sections), records(bench))


def speed_table(bench: Bench) -> Table:
    """Return a row per method and a column per batch size, as the thesis has them in its Table 5.15."""
    methods = {(row.method, row.schedule): _name(row) for row in bench.rows}
    found = {(row.method, row.schedule, row.batch): row.median for row in bench.rows if row.images_per_s}
    return Table(
        (
            Column.words("method", methods.values()),
            Column.words("schedule", [schedule for _, schedule in methods]),
            *(
                Column.numbers(f"batch {batch}", [found.get((*method, batch)) for method in methods])
                for batch in bench.batches
            ),
        )
    )


def bench_table(bench: Bench, batch: int) -> Table:
    """Return a row per method: medians, how far the repeats spread, and how many times as fast as the plain loops."""
    rows = bench.rows_of(batch)

    def measured(value: Callable[[BenchRow], float]) -> list[Value]:
        return [value(row) if row.images_per_s else None for row in rows]

    columns = (
        Column.words("method", map(_name, rows)),
        Column.words("schedule", [row.schedule for row in rows]),
        Column.numbers("images/s", measured(lambda row: row.median)),
        Column.numbers("spread", measured(lambda row: 100 * row.spread), "%", spare=3),
        Column.numbers("x 1 thread", measured(bench.speed_up), form=",.2f"),
        *([Column.numbers("x k threads", measured(bench.threads_speed_up), form=",.2f")] if bench.has_threads else ()),
        *(_time_columns(bench, rows) if _has_predictions(bench) else ()),
        Column.numbers("bubble", [_percent(row.bubble) for row in rows], "%"),
        Column.numbers("idle", [_percent(row.idle) for row in rows], "%", spare=4),
        Column.numbers("moved", [_mib(row.moved_bytes) for row in rows], "MiB", spare=2),
        Column.numbers("predicted", [_mib(row.predicted_bytes) for row in rows], "MiB", spare=1),
        Column.numbers("wire", [_mib(row.wire_bytes) for row in rows], "MiB", spare=5),
    )
    optional = {"idle", "wire"}  # of hosts only
    return Table(tuple(column for column in columns if not (column.name in optional and column.is_empty)))


def _name(row: BenchRow) -> str:
    return f"{row.method} *" if row.is_auto else row.method


def _has_predictions(bench: Bench) -> bool:
    return any(row.predicted_us is not None for row in bench.rows)


def _time_columns(bench: Bench, rows: Sequence[BenchRow]) -> tuple[Column, ...]:
    """Return how long a mini-batch took, how long the simulation says it takes, and how far apart these are."""
    took = [1e3 * row.batch / row.median if row.images_per_s else None for row in rows]
    predicted = [None if (us := bench.predicted_us(row)) is None else us / 1e3 for row in rows]
    errors = [100 * (p / t - 1) if p and t else None for p, t in zip(predicted, took, strict=True)]
    return (
        Column.numbers("mini-batch", took, "ms"),
        Column.numbers("predicted", predicted, "ms"),
        Column.numbers("error", errors, "%", form="+.1f"),
    )


def _percent(share: float | None) -> float | None:
    return None if share is None else 100 * share


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
    record["predicted_here_us"] = bench.predicted_us(row)
    against = (bench.speed_up(row), bench.threads_speed_up(row))
    return record | dict(zip(FIGURES, (row.median, row.spread, *against), strict=True))


def conditions(bench: Bench) -> str:
    """Say what was measured on what."""
    inputs = " and ".join("x".join(map(str, shape)) for shape in bench.inputs)
    repeats = max(len(row.images_per_s) for row in bench.rows)
    several = "batches" if len(bench.batches) > 1 else "batch"
    network = f"; {bench.network}" if bench.network else ""
    return (
        f"{bench.model}, {inputs}, {several} {', '.join(map(str, bench.batches))}, k={bench.k}; medians of {repeats} "
        f"repeats of {bench.steps} mini-batches, all methods by turns; plans by {bench.costs} costs, imbalance "
        f"{bench.imbalance:g}; every part on {bench.machine}{network}"
    )


def _paces_text(bench: Bench, batch: int) -> str:
    paces = bench.paces(batch)
    together = ", ".join(f"{pace:.2f}" for pace in paces.together)
    return f"{paces.alone:.2f}" + (f" ({together} on all hosts at once)" if bench.network else "")


def bench_notes(bench: Bench) -> list[str]:
    """Explain the columns where the table does not, and name what could not be measured."""
    widest = median(row.spread for row in bench.rows if row.images_per_s)
    notes = [
        f"spread: fastest - slowest repeat, of the median; {100 * widest:.1f}% for the middle one of these rows",
        "bubble: share of the time in which a part computes nothing; MiB: between parts per mini-batch, both ways",
    ]
    if _has_predictions(bench):
        network = "with the network as it was probed" if bench.network else "if messages took no time"
        paces = " and ".join(_paces_text(bench, batch) for batch in bench.batches)
        notes.append(
            f"predicted ms: a mini-batch in a simulation of measured layers, {network}, at the pace of this run: the "
            f"plain loop took {paces} times as long as its layers alone"
        )
    if any(row.idle is not None for row in bench.rows):
        notes.append("idle: share of the hosts' processor time that nobody used, whatever the processes waited for")
    if any(row.wire_bytes is not None for row in bench.rows):
        notes.append("wire: what the hosts' cards sent by their own counters, per mini-batch, protocol included")
    if any(row.is_outside for row in bench.rows):
        notes.append("torch: its DistributedDataParallel, and its pipelining's schedules with m micro-batches")
    if any(row.survives for row in bench.rows):
        notes.append(
            "survive: with --survive 1, a copy of every part on another host after every --survive-every updates"
        )
    if any(row.is_auto for row in bench.rows):
        notes.append("*: the plan that --grain auto returns")
    if not bench.network and bench.num_cores < bench.k:
        notes.append(f"{bench.k} parts shared {bench.num_cores} cores here, so more than that cannot be gained")
    reasons = dict.fromkeys((row.method, row.note) for row in bench.rows if row.note)
    return notes + [f"{method}: {note}" for method, note in reasons]
