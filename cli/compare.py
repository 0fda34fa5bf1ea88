"""`hyperplace compare`: layer-wise, naive and hypergraph partitions side by side, as the thesis's tables."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from . import options
from .folder import check_folder, write_figure
from .load import load
from .terminal import progress, say

if TYPE_CHECKING:
    from hyperplace.values.comparison import Comparison, ComparisonRow


def compare(
    model: options.Model,
    k: Annotated[str, typer.Option(help="Numbers of parts.")] = "2,4,8",
    imbalance: Annotated[str, typer.Option(help="Imbalances for the methods that obey one.")] = "0.1",
    methods: Annotated[
        str | None, typer.Option(help="Only these methods, such as coarse,auto; all by default.")
    ] = None,
    costs: options.Costs = "flops",
    batch: options.Batch = 32,
    blocks: options.Blocks = "64",
    row_blocks: options.RowBlocks = 8,
    batch_norm: options.BatchNorm = "exact",
    fc: options.Fc = "neurons",
    seed: options.Seed = 0,
    time_limit: options.TimeLimit = 20.0,
    input: options.Input = None,
    out: options.Out = None,
) -> None:
    """Compare work and volume of every method, beside data parallelism and the thesis's own figures."""
    from rich.console import Console

    from hyperplace import api
    from hyperplace.report.comparison import render_comparison

    parts, limits = options.integers(k, "--k"), options.fractions(imbalance, "--imbalance")
    loaded = load(model, input)
    folder = out or Path("results") / f"{loaded.name}-compare"
    check_folder(folder)
    with progress(f"measuring {loaded.name}") as shown:
        comparison = api.compare(
            loaded.module,
            loaded.sample,
            k=parts,
            imbalance=limits,
            methods=methods.split(",") if methods else api.METHOD_NAMES,
            time_limit_s=time_limit,
            costs=costs,
            batch=batch,
            blocks=options.number_of_blocks(blocks),
            fc=fc,
            row_blocks=row_blocks,
            batch_norm=batch_norm,
            seed=seed,
            name=loaded.name,
            on_layer=shown.on_layer,
            on_row=_say_row,
        )
    Console(highlight=False).print(render_comparison(comparison))
    _write(folder, comparison)


def _say_row(row: "ComparisonRow") -> None:
    volume = row.note or f"{row.volume_bytes / 2**20:.1f} MiB, max/avg {row.max_over_avg:.3f}"
    say(f"k={row.k} {row.method}: {volume} ({row.seconds:.1f} s)")


def _write(folder: Path, comparison: "Comparison") -> None:
    from hyperplace.files.write import write_text
    from hyperplace.report.comparison import (
        comparison_csv,
        comparison_figure,
        comparison_markdown,
        comparison_text,
    )

    command = " ".join(["hyperplace", *sys.argv[1:]])
    write_text(folder / "comparison.txt", comparison_text(comparison))
    write_text(folder / "comparison.md", comparison_markdown(comparison, command))
    write_text(folder / "comparison.csv", comparison_csv(comparison))
    write_figure(folder / "comparison.png", comparison_figure(comparison))
    say(f"written to {folder}/: comparison.txt, .md, .csv, .png")
