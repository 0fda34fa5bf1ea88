"""What every layer costs, as a table."""

from collections.abc import Callable

from hyperplace.report.document import Column, Document, Section, Table, Text, Value
from hyperplace.values.graph import Graph
from hyperplace.values.profile import Profile, Timing
from hyperplace.values.sizes import MIB


def profile_document(graph: Graph, profile: Profile) -> Document:
    """Return the table, and below it what was estimated instead of measured."""
    notes = [Text(f"{cost.layer}: {cost.note}") for cost in profile.layers if cost.note]
    table = profile_table(graph, profile)
    return Document((Text(str(profile), "fact"),), (Section((table, *notes)),), table)


def profile_table(graph: Graph, profile: Profile) -> Table:
    """Return a row per layer: its work for the batch, its parameters, and what was run to measure it.

    `half filters` and `half channels` are the time of half the layer as a share of all of it; milliseconds are for
    the rows that were run, not scaled to the batch.
    """
    layers = [layer for layer in graph.layers if layer.rule != "input"]
    costs = [profile[layer.name] for layer in layers]
    scale, unit = (1e9, "GFLOP") if profile.unit == "flops" else (1e3, "ms")
    work = [cost.filter_work * layer.num_filters / scale for cost, layer in zip(costs, layers, strict=True)]
    columns = (
        Column.words("layer", [layer.name for layer in layers]),
        Column.numbers("filters", [layer.num_filters for layer in layers]),
        Column.numbers("work", work, unit),
        Column.numbers("parameters", [layer.parameter_bytes / MIB for layer in layers], "MiB", spare=1),
    )
    if profile.costs == "flops":
        return Table(columns)
    return Table((*columns, *_timing_columns([cost.timing for cost in costs])))


def _timing_columns(timings: list[Timing | None]) -> tuple[Column, ...]:
    def each(value: Callable[[Timing], Value]) -> list[Value]:
        return [value(timing) if timing else None for timing in timings]

    def of_anchor(half_s: float, timing: Timing) -> float | None:
        return 100 * half_s / (timing.forward_s + timing.backward_s) if half_s else None

    return (
        Column.numbers("rows", each(lambda timing: timing.rows), spare=2),
        Column.numbers("forward", each(lambda timing: timing.forward_s * 1e3), "ms"),
        Column.numbers("backward", each(lambda timing: timing.backward_s * 1e3), "ms"),
        Column.numbers("tail", each(lambda timing: timing.tail_s * 1e3), "ms"),
        Column.numbers("update", each(lambda timing: timing.update_s * 1e3), "ms"),
        Column.numbers("half filters", each(lambda timing: of_anchor(timing.half_filters_s, timing)), "%", spare=4),
        Column.numbers("half channels", each(lambda timing: of_anchor(timing.half_channels_s, timing)), "%", spare=4),
        Column.numbers("spread", each(lambda timing: 100 * timing.spread), "%", spare=3),
    )
