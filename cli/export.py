"""`hyperplace export`: the hypergraph as a file for PaToH, hMETIS or anyone else."""

from pathlib import Path
from typing import Annotated

import typer

from . import options
from .planned import load
from .terminal import progress, say


def export(
    model: options.Model,
    output: Annotated[Path, typer.Option("-o", "--output", help="The file to write.")],
    grain: options.Grain = "coarse",
    format: Annotated[str, typer.Option(help="patoh or hmetis.")] = "patoh",
    costs: options.Costs = "flops",
    batch: options.Batch = 32,
    blocks: options.Blocks = "64",
    row_blocks: options.RowBlocks = 8,
    batch_norm: options.BatchNorm = "exact",
    fc: options.Fc = "neurons",
    input: options.Input = None,
) -> None:
    """Write the hypergraph of a model; partition it with any tool and come back with partition --from-partition."""
    from hyperplace import api
    from hyperplace.files.hypergraph import format_named, write_hypergraph
    from hyperplace.values.plan import Settings

    format_named(format)
    loaded = load(model, input)
    number = options.number_of_blocks(blocks)
    settings = Settings(
        model=loaded.name,
        k=1,
        imbalance=0.0,
        grain=grain,
        partitioner="auto",
        costs=costs,
        batch=batch,
        blocks=number,
        fc=fc,
        row_blocks=row_blocks,
        batch_norm=batch_norm,
    )
    graph = api.graph_for(settings, loaded.module, loaded.sample)
    with progress("measuring") as shown:
        profile = api.profile(graph, costs=costs, batch=batch, on_layer=shown.on_layer)
    hypergraph = api.build(graph, profile, grain=grain, blocks=number, fc=fc, row_blocks=row_blocks)
    write_hypergraph(output, hypergraph, format)
    say(f"{output}: {hypergraph}")
