"""What every layer costs, as a table."""

from typing import TYPE_CHECKING

from hyperplace.report.tables import MIB, NOTHING
from hyperplace.report.terminal import TerminalTable
from hyperplace.values.graph import Graph
from hyperplace.values.profile import Profile

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import RenderableType


def profile_table(graph: Graph, profile: Profile) -> "pd.DataFrame":
    """Return a row per layer: its work for the batch, its parameters, and what was run to measure it.

    `half filters` and `half channels` are the time of half the layer as a share of all of it; milliseconds are for
    the rows that were run, not scaled to the batch.
    """
    import pandas as pd

    layers = [layer for layer in graph.layers if layer.rule != "input"]
    costs = [profile[layer.name] for layer in layers]
    scale, unit = (1e9, "GFLOP") if profile.unit == "flops" else (1e3, "ms")
    table = pd.DataFrame({"layer": [layer.name for layer in layers]})
    table["filters"] = [layer.num_filters for layer in layers]
    table[f"work {unit}"] = [c.filter_work * layer.num_filters / scale for c, layer in zip(costs, layers, strict=True)]
    table["parameters MiB"] = [layer.parameter_bytes / MIB for layer in layers]
    if profile.costs == "flops":
        return table
    timings = [cost.timing for cost in costs]
    table["rows"] = [t.rows if t else 0 for t in timings]
    for name in ("forward", "backward", "tail", "update"):
        table[f"{name} ms"] = [getattr(t, f"{name}_s") * 1e3 if t else NOTHING for t in timings]
    for name in ("half filters", "half channels"):
        halves = [getattr(t, f"{name.replace(' ', '_')}_s") if t else 0.0 for t in timings]
        table[f"{name} %"] = [
            100 * half / (t.forward_s + t.backward_s) if t and half else NOTHING
            for half, t in zip(halves, timings, strict=True)
        ]
    table["spread %"] = [100 * t.spread if t else NOTHING for t in timings]
    return table


def render_profile(graph: Graph, profile: Profile) -> "RenderableType":
    """Return the table for the terminal, and below it what was estimated instead of measured."""
    from rich.console import Group
    from rich.text import Text

    notes = [f"{cost.layer}: {cost.note}" for cost in profile.layers if cost.note]
    return Group(
        TerminalTable(profile_table(graph, profile), spare=("parameters", "rows", "spread", "half")),
        *(Text(note) for note in notes),
    )
