"""`hyperplace profile`: what every layer costs on this machine."""

from pathlib import Path
from typing import Annotated

import typer

from . import options
from .planned import load
from .terminal import progress, say


def profile(
    model: options.Model,
    batch: options.Batch = 32,
    costs: options.Costs = "measured",
    input: options.Input = None,
    device: Annotated[str, typer.Option(help="Device to measure on.")] = "cpu",
    threads: Annotated[int | None, typer.Option(help="Intra-op threads; torch's own number by default.")] = None,
    rounds: Annotated[
        int | None, typer.Option(help="Measure again, every layer so often, and take the middle.", show_default=False)
    ] = None,
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
    with progress("measuring") as shown:
        found = api.profile(
            graph,
            costs=costs,
            batch=batch,
            device=device,
            threads=threads,
            rounds=rounds,
            use_cache=not fresh,
            on_layer=shown.on_layer,
        )
    if output:
        write_text(output, profile_text(found))
        say(f"written: {output}")
    if json:
        print(profile_text(found), end="")
        return
    from rich.console import Console

    from hyperplace.report import profile_document, show

    show(profile_document(graph, found), Console(highlight=False))
