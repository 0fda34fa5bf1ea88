"""What every layer costs, as a table."""

from typing import TYPE_CHECKING

from hyperplace.report.tables import MIB, NOTHING
from hyperplace.report.terminal import TerminalTable
from hyperplace.values.graph import Graph
from hyperplace.values.profile import LayerCost, Profile, Work

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import RenderableType


def profile_table(graph: Graph, profile: Profile) -> "pd.DataFrame":
    """Return a row per layer: its work for the batch, its parameters, and what was run to measure it.

    `forward`, `backward` and `update` are without the trailing operations, and add up with them to `work`. `half
    filters` and `half channels` are the time of half the layer as a share of all of it.
    """
    import pandas as pd

    layers = [layer for layer in graph.layers if layer.rule != "input"]
    costs = [profile[layer.name] for layer in layers]
    scale, unit = (1e9, "GFLOP") if profile.unit == "flops" else (1e3, "ms")
    table = pd.DataFrame({"layer": [layer.name for layer in layers]})
    table["filters"] = [layer.num_filters for layer in layers]
    for name, works in _columns(costs).items():
        table[f"{name} {unit}"] = [w * layer.num_filters / scale for w, layer in zip(works, layers, strict=True)]
    table["parameters MiB"] = [layer.parameter_bytes / MIB for layer in layers]
    if profile.costs == "flops":
        return table
    timings = [cost.timing for cost in costs]
    table["rows"] = [t.rows if t else 0 for t in timings]
    table["half filters %"] = [_half(t.half_filters_s, t.anchor_s) if t else NOTHING for t in timings]
    table["half channels %"] = [_half(t.half_channels_s, t.anchor_s) if t else NOTHING for t in timings]
    table["spread %"] = [100 * t.spread if t else NOTHING for t in timings]
    return table


def _columns(costs: list[LayerCost]) -> dict[str, list[float]]:
    """Return the work of a filter of every layer, in all and by its passes."""
    anchors = [cost.filter - cost.tail for cost in costs]
    return {
        "work": [cost.filter_work for cost in costs],
        "forward": [anchor.forward for anchor in anchors],
        "backward": [anchor.backward for anchor in anchors],
        "update": [anchor.update for anchor in anchors],
        "trailing": [cost.tail_work for cost in costs],
    }


def _half(half: Work, whole: Work) -> float:
    return 100 * half.total / whole.total if half.total else NOTHING


def render_profile(graph: Graph, profile: Profile) -> "RenderableType":
    """Return the table for the terminal, and below it what was estimated instead of measured."""
    from rich.console import Group
    from rich.text import Text

    notes = [f"{cost.layer}: {cost.note}" for cost in profile.layers if cost.note]
    return Group(
        TerminalTable(profile_table(graph, profile), spare=("parameters", "rows", "spread", "half")),
        *(Text(note) for note in notes),
    )
