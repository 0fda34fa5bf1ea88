"""`hyperplace bench`: how fast a model trains, unsplit and by every kind of plan."""

import json as json_text
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from . import options
from .folder import check_folder, write_document
from .planned import Subject, parsed_shapes
from .terminal import progress, say

TRACE = "trace.json"


def bench(
    model: options.Model,
    k: Annotated[int, typer.Option(help="Number of parts, each on a core of its own.")] = 2,
    batch: options.Batch = 16,
    repeats: Annotated[int, typer.Option(help="Rounds in which every method has its turn.")] = 5,
    steps: Annotated[int, typer.Option(help="Mini-batches that are timed in a turn.")] = 8,
    imbalance: Annotated[
        float, typer.Option(help="For the plans; a tight one, for the slowest part sets the pace.")
    ] = 0.02,
    costs: options.Costs = "measured",
    in_flight: Annotated[int, typer.Option(help="Mini-batches (sync: micro-batches) under way at once.")] = 4,
    seed: options.Seed = 0,
    time_limit: options.TimeLimit = 20.0,
    input: options.Input = None,
    out: options.Out = None,
    json: options.Json = False,
) -> None:
    """Measure how fast a model trains: unsplit on one thread and on k, and by every kind of plan, sync and async."""
    from rich.console import Console

    from hyperplace.bench import BenchSettings
    from hyperplace.bench import bench as measure
    from hyperplace.files.timeline import trace_text
    from hyperplace.files.write import write_text
    from hyperplace.report import bench_document, show

    subject = Subject(model, parsed_shapes(input))
    name = subject.load().name
    settings = BenchSettings(
        model=name,
        k=k,
        batch=batch,
        repeats=repeats,
        steps=steps,
        imbalance=imbalance,
        costs=costs,
        in_flight=in_flight,
        seed=seed,
        time_limit_s=time_limit,
    )
    folder = out or Path("results") / f"{name}-k{k}-bench"
    check_folder(folder)
    with progress("bench") as shown:
        loaded = subject.weighted(seed)
        measured = measure(loaded.module, loaded.sample, settings, on_progress=shown.on_progress)
    document = bench_document(measured.bench, measured.timeline)
    files = write_document(folder, "bench", document, text_width=120)
    if measured.timeline:
        write_text(folder / TRACE, trace_text(measured.timeline))
        files = (*files, TRACE)
    if json:
        print(json_text.dumps(asdict(measured.bench) | {"files": [str(folder / file) for file in files]}))
        return
    show(document, Console(highlight=False))
    say(f"written to {folder}/: {', '.join(files)}")
