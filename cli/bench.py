"""`hyperplace bench`: how fast a model trains, unsplit and by every kind of plan."""

import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from . import options
from .folder import check_folder, write_figure
from .planned import Subject, parsed_shapes
from .terminal import progress, say

if TYPE_CHECKING:
    from hyperplace.bench import Measured

FILES = ("bench.txt", "bench.md", "bench.csv")
TIMELINE_FILES = ("trace.json", "timeline.png")


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
    from hyperplace.bench import BenchSettings
    from hyperplace.bench import bench as measure

    subject = Subject(model, parsed_shapes(input))
    name = subject.load().name
    settings = BenchSettings(name, k, batch, repeats, steps, imbalance, costs, in_flight, seed, time_limit)
    folder = out or Path("results") / f"{name}-k{k}-bench"
    check_folder(folder)
    with progress("bench") as shown:
        loaded = subject.weighted(seed)
        measured = measure(loaded.module, loaded.sample, settings, on_progress=shown.on_progress)
    files = _write(folder, measured)
    if json:
        import json as json_text

        print(json_text.dumps(asdict(measured.bench) | {"files": [str(folder / file) for file in files]}))
        return
    _show(measured)
    say(f"written to {folder}/: {', '.join(files)}")


def _write(folder: Path, measured: "Measured") -> tuple[str, ...]:
    from hyperplace.files.timeline import trace_text
    from hyperplace.files.write import write_text
    from hyperplace.report.bench import bench_csv, bench_markdown, bench_text
    from hyperplace.report.gantt import timeline_figure

    command = " ".join(["hyperplace", *sys.argv[1:]])
    texts = (bench_text(measured.bench), bench_markdown(measured.bench, command), bench_csv(measured.bench))
    for file, text in zip(FILES, texts, strict=True):
        write_text(folder / file, text)
    if measured.timeline is None:
        return FILES
    write_text(folder / TIMELINE_FILES[0], trace_text(measured.timeline))
    write_figure(folder / TIMELINE_FILES[1], timeline_figure(measured.timeline))
    return FILES + TIMELINE_FILES


def _show(measured: "Measured") -> None:
    from rich.console import Console

    from hyperplace.report.bench import render_bench
    from hyperplace.report.timeline import render_timeline

    console = Console(highlight=False)
    console.print(render_bench(measured.bench))
    best = measured.bench.best
    if best and measured.timeline:
        console.print(f"\n{best.method} {best.schedule}, the fastest plan, in the steady state:\n")
        console.print(render_timeline(measured.timeline))
