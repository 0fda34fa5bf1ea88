"""`hyperplace profile`: what every layer costs on this machine."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from . import options
from .load import load
from .terminal import layer_progress, say

if TYPE_CHECKING:
    from rich.table import Table

    from hyperplace.values.graph import Graph
    from hyperplace.values.profile import Profile


def profile(
    model: options.Model,
    batch: options.Batch = 32,
    costs: options.Costs = "measured",
    input: options.Input = None,
    device: Annotated[str, typer.Option(help="Device to measure on.")] = "cpu",
    threads: Annotated[int | None, typer.Option(help="Intra-op threads; torch's own number by default.")] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Measure again even if it was measured before.")] = False,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Write the profile to this file.")] = None,
    json: options.Json = False,
) -> None:
    """Measure every layer: forward, backward and update, per filter and per channel."""
    from hyperplace import api
    from hyperplace.files.profile import profile_text
    from hyperplace.files.write import write_text

    loaded = load(model, input)
    graph = api.capture(loaded.module, loaded.sample)
    with layer_progress("measuring") as on_layer:
        found = api.profile(
            graph, costs=costs, batch=batch, device=device, threads=threads, use_cache=not fresh, on_layer=on_layer
        )
    if output:
        write_text(output, profile_text(found))
        say(f"written: {output}")
    if json:
        print(profile_text(found), end="")
        return
    from rich.console import Console

    console = Console(highlight=False)
    console.print(found)
    console.print(_table(graph, found))


def _table(graph: "Graph", profile: "Profile") -> "Table":
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    names = ("rows", "forward ms", "backward ms", "tail ms", "update ms", "half filters", "half channels", "spread")
    table.add_column("layer")
    for name in ("filters", f"{profile.unit}/filter", "params MiB", *(names if profile.costs == "measured" else ())):
        table.add_column(name, justify="right")
    for layer in graph.layers:
        cost = profile[layer.name]
        row = [str(layer.num_filters), f"{cost.filter_work:,.6g}", f"{layer.parameter_bytes / 2**20:.2f}"]
        if t := cost.timing:
            whole = t.forward_s + t.backward_s
            row += [str(t.rows), *(f"{s * 1e3:.2f}" for s in (t.forward_s, t.backward_s, t.tail_s, t.update_s))]
            row += [f"{s / whole:.2f}" if s else "" for s in (t.half_filters_s, t.half_channels_s)]
            row += [f"{t.spread:.0%}"]
        table.add_row(layer.name, *row)
    return table
