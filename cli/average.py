"""`hyperplace average`: data split over nodes that train on their own and average their weights after every epoch."""

import json as json_text
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hyperplace.errors import UsageError

from . import options
from .folder import check_folder, write_document
from .planned import Subject, parsed_shapes
from .terminal import progress, say

if TYPE_CHECKING:
    from hyperplace.values.averaging import Averaged


def average(
    model: options.Model,
    nodes: Annotated[str, typer.Option(help="Numbers of nodes, the first of which the others are compared with.")] = (
        "1,2,4,8"
    ),
    cluster: Annotated[
        str, typer.Option(help="The machines, a node on each device: a file, or a short form such as 8x1@1gbit.")
    ] = "8x1@1gbit",
    folds: Annotated[
        int | None, typer.Option(help="Cross-validate with so many folds of the training images.", show_default="no")
    ] = None,
    data: Annotated[str, typer.Option(help="fashion-mnist or synthetic.")] = "fashion-mnist",
    data_folder: Annotated[Path | None, typer.Option(help="Folder of the IDX files.")] = None,
    images: Annotated[int | None, typer.Option(help="Train on this many images only.", show_default="all")] = None,
    epochs: Annotated[int, typer.Option(help="Passes over the data.")] = 5,
    batch: options.Batch = 64,
    lr: Annotated[float, typer.Option(help="Learning rate.")] = 0.05,
    momentum: Annotated[float, typer.Option(help="Momentum of SGD.")] = 0.9,
    seed: options.Seed = 0,
    input: options.Input = None,
    out: options.Out = None,
    json: options.Json = False,
) -> None:
    """Train on shares of the data with averaged weights: real accuracy, predicted seconds, for 1, 2, 4, 8 nodes."""
    from hyperplace import api
    from hyperplace.training import AverageWish, TrainSettings, average_over_nodes, load_sets

    counts = options.integers(nodes, "--nodes")
    place = api.load_cluster(cluster)
    if max(counts) > place.num_devices or min(counts) < 1:
        raise UsageError(f"--nodes {nodes} does not fit {cluster}, which has {place.num_devices} devices")
    settings = TrainSettings(
        data=data,
        data_folder=data_folder,
        num_images=images,
        epochs=epochs,
        batch=batch,
        lr=lr,
        momentum=momentum,
        seed=seed,
    )
    subject = Subject(model, parsed_shapes(input))
    if out:
        check_folder(out)
    loaded = subject.load()
    sets = load_sets(settings, [tuple(x.shape[1:]) for x in loaded.sample])
    with progress(f"measuring {loaded.name}") as shown:
        graph = api.capture(loaded.module, loaded.sample)
        costs = api.profile(graph, batch=batch, threads=1, on_layer=shown.on_layer)
        wish = AverageWish(tuple(counts), folds)
        rows = average_over_nodes(
            graph, costs, lambda number: subject.weighted(number).module, settings, sets, place, wish, shown.on_progress
        )
    title = f"{loaded.name} on {data}, {len(sets.train):,} images, {epochs} epochs of batch {batch}, on {place}"
    _show(title, rows, out, is_json=json)


def _show(title: str, rows: "Sequence[Averaged]", out: Path | None, *, is_json: bool) -> None:
    from rich.console import Console

    from hyperplace.report import averaging_document, show

    document = averaging_document(title, rows)
    written = write_document(out, "averaging", document) if out else ()
    if is_json:
        found = [
            {
                "nodes": row.num_nodes,
                "accuracy": row.accuracy,
                "accuracies": list(row.accuracies),
                "compute_seconds": row.compute_s,
                "epoch_seconds": row.epoch_s,
                "seconds": row.seconds,
                "improvement": row.improvement(rows[0]),
            }
            for row in rows
        ]
        print(json_text.dumps({"rows": found}))
        return
    show(document, Console(highlight=False))
    if out:
        say(f"written to {out}/: {', '.join(written)}")
