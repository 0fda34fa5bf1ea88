"""`hyperplace bench`: how fast a model trains, unsplit and by every kind of plan."""

import json as json_text
import signal
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hyperplace.errors import UsageError

from . import options
from .folder import check_folder, held, write_document
from .planned import Subject, parsed_shapes
from .terminal import Shown, progress, say

if TYPE_CHECKING:
    from hyperplace.bench import BenchSettings, Measured

    Measure = Callable[[Shown], Measured]

TRACE = "trace.json"


def bench(
    model: options.Model,
    k: Annotated[
        int | None, typer.Option(help="Number of parts, each on a core of its own.", show_default="2, or --hosts")
    ] = None,
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
    hosts: Annotated[
        int | None,
        typer.Option(help="Emulate so many hosts here, a process each, and measure what torch offers too; needs root."),
    ] = None,
    rate: Annotated[
        str | None,
        typer.Option(
            help="What every host's card sends and receives, such as 1gbit, or one for each: 1gbit,100mbit.",
            show_default="no limit",
        ),
    ] = None,
    shares: Annotated[
        str | None, typer.Option(help="Of a core, one for each host, such as 1,0.4.", show_default="all there is")
    ] = None,
    delay: Annotated[str | None, typer.Option(help="Of what a host sends, such as 1ms.", show_default="none")] = None,
    batches: Annotated[
        str | None, typer.Option(help="Several batch sizes on hosts, such as 8,16,32.", show_default="--batch")
    ] = None,
    turn_limit: Annotated[
        float | None,
        typer.Option(help="Seconds of a turn on hosts; slow methods are timed for fewer steps.", show_default="30"),
    ] = None,
    survive_every: Annotated[
        int | None,
        typer.Option(
            help="On hosts: also the plan by time with --survive 1 and a copy of every part after so many updates.",
            show_default="none",
        ),
    ] = None,
    only: Annotated[
        str | None, typer.Option(help="Methods with one of these words, such as hybrid,ddp.", show_default="all")
    ] = None,
    input: options.Input = None,
    out: options.Out = None,
    html: options.Html = False,
    json: options.Json = False,
) -> None:
    """Measure how fast a model trains: unsplit on one thread and on k, and by every kind of plan, sync and async.

    On emulated hosts also by torch's DistributedDataParallel and pipelining.
    """
    from hyperplace.bench import BenchSettings, check_images

    of_hosts = {"--rate": rate, "--shares": shares, "--delay": delay, "--batches": batches, "--turn-limit": turn_limit}
    of_hosts |= {"--survive-every": survive_every}
    _check_options(hosts, k, of_hosts)
    subject = Subject(model, parsed_shapes(input))
    loaded = subject.load()
    name = loaded.name
    check_images(name, loaded.sample)
    num_parts = hosts or (2 if k is None else k)
    settings = BenchSettings(
        model=name,
        k=num_parts,
        batch=batch,
        repeats=repeats,
        steps=steps,
        imbalance=imbalance,
        costs=costs,
        in_flight=in_flight,
        seed=seed,
        time_limit_s=time_limit,
        only=tuple(only.split(",")) if only else (),
        survive_every=survive_every,
    )
    if hosts is None:
        folder, measure = out or Path("results") / f"{name}-k{num_parts}-bench", _on_threads(subject, settings)
    else:
        sizes = tuple(options.integers(batches, "--batches")) if batches else ()
        folder = out or Path("results") / f"{name}-k{hosts}-hosts-bench"
        own = tuple(options.fractions(shares, "--shares")) if shares else ()
        measure = _on_hosts(subject, settings, rate, delay, batches=sizes, turn_limit_s=turn_limit, shares=own)
    check_folder(folder)
    # As after Ctrl-C, emulated hosts and the processes on them are given back.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    with held(folder):
        with progress("bench") as shown:
            measured = measure(shown)
        _written(measured, folder, is_json=json, html=html)


def _check_options(hosts: int | None, k: int | None, of_hosts: Mapping[str, object]) -> None:
    """Refuse what is for hosts where there are none, and a k that contradicts them."""
    if hosts is None:
        if given := [name for name, value in of_hosts.items() if value is not None]:
            raise UsageError(f"{given[0]} is for emulated hosts; add --hosts 2, or leave it out")
        return
    from hyperplace.bench import check_hosts

    check_hosts(hosts)
    if k not in (None, hosts):
        raise UsageError(f"--k {k} is not --hosts {hosts}, and every host has one part; leave --k out")


def _on_threads(subject: Subject, settings: "BenchSettings") -> "Measure":
    from hyperplace.bench import bench

    def measure(shown: Shown) -> "Measured":
        loaded = subject.weighted(settings.seed)
        return bench(loaded.module, loaded.sample, settings, on_progress=shown.on_progress)

    return measure


def _on_hosts(
    subject: Subject,
    settings: "BenchSettings",
    rate: str | None,
    delay: str | None,
    *,
    batches: tuple[int, ...],
    turn_limit_s: float | None,
    shares: tuple[float, ...],
) -> "Measure":
    from hyperplace.bench import Card, HostSettings, bench_hosts

    limit = {} if turn_limit_s is None else {"turn_limit_s": turn_limit_s}
    cards = Card.parse_all(rate, delay)
    wanted = HostSettings(subject.spec, subject.shapes, settings, cards, shares, batches, **limit)
    return lambda shown: bench_hosts(wanted, on_progress=shown.on_progress, on_note=say)


def _written(measured: "Measured", folder: Path, *, is_json: bool, html: bool) -> None:
    """Write the files, and show the table or its data."""
    from rich.console import Console

    from hyperplace.files.timeline import trace_text
    from hyperplace.files.write import write_text
    from hyperplace.report import bench_document, show

    document = bench_document(measured.bench, measured.timeline)
    files = write_document(folder, "bench", document, text_width=120, html=html)
    if measured.timeline:
        write_text(folder / TRACE, trace_text(measured.timeline))
        files = (*files, TRACE)
    if is_json:
        print(json_text.dumps(asdict(measured.bench) | {"files": [str(folder / file) for file in files]}))
        return
    show(document, Console(highlight=False))
    say(f"written to {folder}/: {', '.join(files)}")
