"""`hyperplace train`: a model or a plan, trained with a thread per part."""

from pathlib import Path
from typing import Annotated

import typer

from hyperplace.errors import UsageError
from hyperplace.files.write import remove_leftovers

from . import options
from .folder import held
from .planned import PlanWish, find_subject
from .training import TrainingRun
from .watching import WatchWish, watching


def train(
    model: Annotated[str, typer.Argument(help="A model, as for partition, or a plan.json.", show_default=False)],
    k: Annotated[int | None, typer.Option(help="Number of parts.", show_default="2, or the plan's")] = None,
    schedule: Annotated[
        str, typer.Option(help="async: parts update on their own; sync: micro-batches, then one update.")
    ] = "async",
    in_flight: Annotated[int, typer.Option(help="Mini-batches (sync: micro-batches) under way at once.")] = 4,
    micro_batches: Annotated[
        int | None, typer.Option(help="Pieces of a mini-batch, for sync.", show_default="k, or 1 with batch norm")
    ] = None,
    data: Annotated[str, typer.Option(help="fashion-mnist or synthetic.")] = "fashion-mnist",
    data_folder: Annotated[Path | None, typer.Option(help="Folder of the IDX files.")] = None,
    images: Annotated[int | None, typer.Option(help="Train on this many images only.", show_default="all")] = None,
    epochs: Annotated[int, typer.Option(help="Passes over the data.")] = 5,
    batch: Annotated[int | None, typer.Option(help="Rows of a mini-batch.", show_default="64, or the plan's")] = None,
    lr: Annotated[float, typer.Option(help="Learning rate.")] = 0.05,
    momentum: Annotated[float, typer.Option(help="Momentum of SGD.")] = 0.9,
    seed: options.Seed = 0,
    recompute: options.Recompute = "none",
    offload: options.Offload = "none",
    no_stash: Annotated[bool, typer.Option("--no-stash", help="async without weight stashing.")] = False,
    check_nan: Annotated[bool, typer.Option("--check-nan", help="Stop at the first layer that is not finite.")] = False,
    threads: Annotated[
        int | None, typer.Option(help="Intra-op threads of every part.", show_default="the cores shared out")
    ] = None,
    device: Annotated[str, typer.Option(help="One device, or one per part: cuda:0,cuda:1.")] = "cpu",
    planned_model: options.PlannedModel = None,
    input: options.Input = None,
    imbalance: options.PlanImbalance = None,
    grain: options.PlanGrain = None,
    partitioner: options.PlanPartitioner = None,
    costs: options.PlanCosts = None,
    batch_norm: options.PlanBatchNorm = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the checkpoint in --out.")] = False,
    against_plain: Annotated[
        bool, typer.Option("--against-plain", help="Train the unsplit model too, by turns, and compare.")
    ] = False,
    seeds: Annotated[str | None, typer.Option(help="Seeds for --against-plain, such as 0,1,2.")] = None,
    parts_per_process: Annotated[
        int, typer.Option(help="Under torchrun: neighbouring parts that each process has, on threads.")
    ] = 1,
    cluster: options.ClusterOption = None,
    timeline: Annotated[
        bool,
        typer.Option("--timeline", help="Write what every part did when, as trace.json; see replan."),
    ] = False,
    survive: Annotated[
        int, typer.Option(help="Under torchrun: hosts that may be lost, one after the other; the others go on.")
    ] = 0,
    survive_every: Annotated[
        int, typer.Option(help="Updates after which each part is copied to another host, for --survive.")
    ] = 20,
    live: Annotated[
        bool, typer.Option("--live", help="Show the run on a page of this machine; its address is said on stderr.")
    ] = False,
    live_port: Annotated[int | None, typer.Option(help="The port of --live.", show_default="any that is free")] = None,
    tensorboard: Annotated[
        Path | None, typer.Option(help="Write event files for TensorBoard into this folder.", show_default="none")
    ] = None,
    door: Annotated[
        int | None,
        typer.Option(help="With --survive: a port at which spare hosts, and hosts that come back, are let in."),
    ] = None,
    spare: Annotated[
        str | None,
        typer.Option(help="Be a spare of the run with these doors, such as 10.0.0.1:29600,10.0.0.2:29600."),
    ] = None,
    out: options.Out = None,
    html: options.Html = False,
    json: options.Json = False,
) -> None:
    """Train a model split over k parts: progress, a checkpoint after every epoch, tables and a curve.

    On threads of this process, or under torchrun in a process per part, on one host or several: the same command
    everywhere; the first process writes the files.
    """
    from hyperplace.files.cluster import load_cluster
    from hyperplace.training import Flow, TrainSettings, is_started, joined

    if against_plain and resume:
        raise UsageError("--against-plain keeps no checkpoint; leave --resume out")
    if against_plain and is_started():
        raise UsageError("--against-plain is for one process; leave it out under torchrun")
    watch_wish = WatchWish(live, live_port, tensorboard)
    if against_plain and watch_wish.is_any:
        raise UsageError("--live and --tensorboard show one run, and --against-plain makes two; leave that or them out")
    if spare and (resume or against_plain or is_started()):
        raise UsageError("--spare is for a process of its own, which begins where the others are; give it alone")
    if seeds and not against_plain:
        raise UsageError("--seeds is for --against-plain; give one --seed")
    asked = None if grain == "auto" else grain  # any plan will do
    wish = PlanWish(
        k=k,
        imbalance=imbalance,
        grain=asked,
        partitioner=partitioner,
        costs=costs,
        batch=batch,
        batch_norm=batch_norm,
    )
    with joined() as number, watching(watch_wish, is_first=number == 0) as watch:
        subject = find_subject(model, wish, spec=planned_model, shapes=input)
        rows = batch or (subject.plan.settings.batch if subject.plan else 64)
        run = TrainingRun.of(
            subject,
            wish,
            TrainSettings(
                data=data,
                data_folder=data_folder,
                num_images=images,
                epochs=epochs,
                batch=rows,
                lr=lr,
                momentum=momentum,
                seed=seed,
            ),
            Flow(
                schedule=schedule,
                in_flight=in_flight,
                micro_batches=micro_batches,
                stash=not no_stash,
                recompute=recompute,
                offload=offload,
                threads=threads,
                devices=tuple(device.split(",")),
                check_nan=check_nan,
                parts_per_process=parts_per_process,
                cluster=load_cluster(cluster) if cluster else None,
                record=timeline,
                survive=survive,
                survive_every=survive_every,
                door=door,
                spare=spare or "",
            ),
            out=out,
            resume=resume,
            is_quiet=json,
            is_first=number == 0 and not spare,
            html=html,
            watch=watch,
        )
        if number or spare:  # the first one has the folder
            run.alone()
            return
        with held(run.folder):
            remove_leftovers(run.folder)
            if against_plain:
                run.beside_plain(options.integers(seeds, "--seeds") if seeds else [seed])
            else:
                run.alone()
