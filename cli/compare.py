"""`hyperplace compare`: layer-wise, naive and hypergraph partitions side by side, as the thesis's tables.

Of several models there is one table, a row per model and number of parts. Rows are written as they are found.
"""

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hyperplace.errors import UsageError
from hyperplace.values.sizes import size

from . import options
from .folder import check_folder, write_figure
from .load import load
from .terminal import progress, say

if TYPE_CHECKING:
    from hyperplace.values.comparison import Comparison

FILES, OVERVIEW_FILES = "comparison.txt, .md, .csv, .png", "overview.txt, .md, .csv"


def compare(
    model: Annotated[
        str, typer.Argument(help="A model, as for partition; or several, as vgg16,resnet50; or zoo: all of the zoo.")
    ],
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
    from hyperplace import api

    asked = {
        "k": options.integers(k, "--k"),
        "imbalance": options.fractions(imbalance, "--imbalance"),
        "methods": methods.split(",") if methods else api.METHOD_NAMES,
        "time_limit_s": time_limit,
        "costs": costs,
        "batch": batch,
        "blocks": options.number_of_blocks(blocks),
        "row_blocks": row_blocks,
        "batch_norm": batch_norm,
        "fc": fc,
        "seed": seed,
    }
    names = _names(model)
    if len(names) > 1 and input:
        raise UsageError("--input is for one model; leave it out, or compare the models one by one")
    loaded = [load(name, input) for name in names]
    folder = out or Path("results") / f"{loaded[0].name if len(names) == 1 else 'overview'}-compare"
    check_folder(folder)
    (_compare_one if len(names) == 1 else _compare_several)(loaded, asked, folder)


def _names(text: str) -> list[str]:
    from hyperplace.models import ZOO

    return list(ZOO) if text == "zoo" else list(dict.fromkeys(text.split(",")))


def _compare_one(loaded: list[Any], asked: dict[str, Any], folder: Path) -> None:
    from rich.console import Console

    from hyperplace.files.write import write_text
    from hyperplace.report.comparison import (
        comparison_csv,
        comparison_figure,
        comparison_markdown,
        comparison_text,
        render_comparison,
    )

    comparison = _compared(
        loaded[0], asked, lambda so_far: write_text(folder / "comparison.csv", comparison_csv(so_far))
    )
    Console(highlight=False).print(render_comparison(comparison))
    write_text(folder / "comparison.txt", comparison_text(comparison))
    write_text(folder / "comparison.md", comparison_markdown(comparison, _command()))
    write_text(folder / "comparison.csv", comparison_csv(comparison))
    write_figure(folder / "comparison.png", comparison_figure(comparison))
    say(f"written to {folder}/: {FILES}")


def _compare_several(loaded: list[Any], asked: dict[str, Any], folder: Path) -> None:
    from rich.console import Console

    from hyperplace.files.write import write_text
    from hyperplace.report.comparison import comparison_csv
    from hyperplace.report.overview import overview_markdown, overview_text, render_overview

    done: list[Comparison] = []

    def write(so_far: "Comparison") -> None:
        write_text(folder / "overview.csv", comparison_csv(*done, so_far))
        write_text(folder / "overview.md", overview_markdown([*done, so_far], _command()))
        write_text(folder / "overview.txt", overview_text([*done, so_far]))

    for model in loaded:
        done.append(_compared(model, asked, write))
    Console(highlight=False).print(render_overview(done))
    say(f"written to {folder}/: {OVERVIEW_FILES}")


def _compared(loaded: Any, asked: dict[str, Any], write: Any) -> "Comparison":
    """Compare the methods of one model; `write` gets all rows so far, and each is said."""
    from hyperplace import api

    def on_row(so_far: "Comparison") -> None:
        row = so_far.rows[-1]
        volume = f"{size(row.volume_bytes)} forward, {size(row.training_volume_bytes)} in training"
        figures = row.note or f"{volume}, max/avg {row.max_over_avg:.3f}"
        say(f"{row.model} k={row.k} {row.method}: {figures} ({row.seconds:.1f} s)")
        write(so_far)

    with progress(f"measuring {loaded.name}") as shown:
        options = {"name": loaded.name, "on_layer": shown.on_layer, "on_row": on_row}
        return api.compare(loaded.module, loaded.sample, **asked, **options)


def _command() -> str:
    return shlex.join(["hyperplace", *sys.argv[1:]])
