"""What every layer costs, as a table."""

from collections.abc import Callable

from hyperplace.report.document import Column, Document, Section, Table, Text, Value
from hyperplace.values.graph import Graph
from hyperplace.values.profile import LayerCost, Profile, Timing, Work
from hyperplace.values.sizes import MIB


def profile_document(graph: Graph, profile: Profile) -> Document:
    """Return the table, and below it what was estimated instead of measured."""
    notes = [Text(f"{cost.layer}: {cost.note}") for cost in profile.layers if cost.note]
    table = profile_table(graph, profile)
    return Document((Text(str(profile), "fact"),), (Section((table, *notes)),), table)


def profile_table(graph: Graph, profile: Profile) -> Table:
    """Return a row per layer: its work for the batch, its parameters, and what was run to measure it.

    `forward`, `backward` and `update` are without the trailing operations, and add up with them to `work`. `half
    filters` and `half channels` are the time of half the layer as a share of all of it.
    """
    layers = [layer for layer in graph.layers if layer.rule != "input"]
    costs = [profile[layer.name] for layer in layers]
    scale, unit = (1e9, "GFLOP") if profile.unit == "flops" else (1e3, "ms")
    columns = [
        Column.words("layer", [layer.name for layer in layers]),
        Column.numbers("filters", [layer.num_filters for layer in layers]),
        *(
            Column.numbers(name, [w * layer.num_filters / scale for w, layer in zip(works, layers, strict=True)], unit)
            for name, works in _works(costs).items()
        ),
        Column.numbers("parameters", [layer.parameter_bytes / MIB for layer in layers], "MiB", spare=1),
    ]
    measured = [] if profile.costs == "flops" else _timing_columns([cost.timing for cost in costs])
    return Table((*columns, *measured))


def _works(costs: list[LayerCost]) -> dict[str, list[float]]:
    """Return the work of a filter of every layer, in all and by its passes."""
    anchors = [cost.filter - cost.tail for cost in costs]
    return {
        "work": [cost.filter_work for cost in costs],
        "forward": [anchor.forward for anchor in anchors],
        "backward": [anchor.backward for anchor in anchors],
        "update": [anchor.update for anchor in anchors],
        "trailing": [cost.tail_work for cost in costs],
    }


def _timing_columns(timings: list[Timing | None]) -> list[Column]:
    def each(value: Callable[[Timing], Value]) -> list[Value]:
        return [value(timing) if timing else None for timing in timings]

    return [
        Column.numbers("rows", each(lambda timing: timing.rows), spare=2),
        Column.numbers("half filters", each(lambda t: _half(t.half_filters_s, t.anchor_s)), "%", spare=4),
        Column.numbers("half channels", each(lambda t: _half(t.half_channels_s, t.anchor_s)), "%", spare=4),
        Column.numbers("spread", each(lambda timing: 100 * timing.spread), "%", spare=3),
    ]


def _half(half: Work, whole: Work) -> float | None:
    return 100 * half.total / whole.total if half.total else None
