"""`hyperplace partition`: from a model to a plan."""

import json as json_text
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hyperplace.errors import UsageError

from . import options
from .folder import check_folder, held, write_figure
from .planned import load, settled_aloud
from .simulate import survive_figures
from .terminal import progress, say

if TYPE_CHECKING:
    from hyperplace.api import Placement, TimePlan
    from hyperplace.report import Document
    from hyperplace.values.cluster import Cluster
    from hyperplace.values.hypergraph import Hypergraph
    from hyperplace.values.partition import Partition
    from hyperplace.values.profile import Profile

CLUSTER, PAGE = "cluster.toml", "plan.html"
FILES = {"hypergraph": "hypergraph.patoh", "partition": "partition.txt", "figure": "plan.png", "plan": "plan.json"}


def partition(
    model: options.Model,
    k: Annotated[int | None, typer.Option(help="Number of parts.", show_default="4")] = None,
    imbalance: Annotated[
        float | None, typer.Option(help="Heaviest part / average part - 1 may be at most this.", show_default="0.1")
    ] = None,
    grain: options.Grain = "auto",
    partitioner: options.Partitioner = "auto",
    costs: options.PlanCosts = None,
    batch: options.Batch = 32,
    blocks: options.Blocks = "64",
    row_blocks: options.RowBlocks = 8,
    batch_norm: options.BatchNorm = "exact",
    fc: options.Fc = "neurons",
    seed: options.Seed = 0,
    time_limit: options.TimeLimit = 20.0,
    input: options.Input = None,
    profile: Annotated[Path | None, typer.Option(help="Use the costs of this profile file.")] = None,
    from_partition: Annotated[
        Path | None, typer.Option(help="Use this partition vector (one part per line) instead of a partitioner.")
    ] = None,
    cluster: options.ClusterOption = None,
    schedule: Annotated[str, typer.Option(help="With --cluster: how it is to run, async or sync.")] = "async",
    pin: options.Pin = None,
    keep_together: options.KeepTogether = None,
    at_most: options.AtMost = None,
    recompute: options.PlanRecompute = None,
    offload: options.PlanOffload = None,
    survive_every: options.SurviveEvery = None,
    out: options.Out = None,
    html: options.Html = False,
    json: options.Json = False,
) -> None:
    """Place a model on k parts: print the parts, the map and the costs, and write plan, hypergraph, vector, figure."""
    from hyperplace import api
    from hyperplace.values.pins import Pins
    from hyperplace.values.plan import Settings
    from hyperplace.values.relief import AUTO, OFFLOAD, RECOMPUTE

    pins = Pins.parse(pin or [], keep_together or [], at_most or [])
    if pins and from_partition:
        raise UsageError(f"{from_partition} says where every layer is already; leave it or the pins out")
    loaded = load(model, input)
    given = _read_profile(profile) if profile else None
    place = api.load_cluster(cluster) if cluster else None
    if place is not None:
        _refuse_beside_cluster(
            {"--from-partition": from_partition, "--imbalance": imbalance}
            | {name: word for name, word in (("--grain", grain), ("--partitioner", partitioner)) if word != "auto"}
        )
        k, costs = place.num_devices if k is None else k, costs or (None if given else "measured")
    elif survive_every is not None:
        raise UsageError(
            "--survive-every says what copies cost on a --cluster; leave it out, or give it to hyperplace train"
        )
    elif given_ways := [way for way, word in ((RECOMPUTE, recompute), (OFFLOAD, offload)) if word is not None]:
        raise UsageError(
            f"--{given_ways[0]} is for the memory of a --cluster; leave it out, or give it to hyperplace train"
        )
    settings = Settings(
        model=loaded.name,
        k=4 if k is None else k,
        imbalance=0.1 if imbalance is None else imbalance,
        grain=grain,
        partitioner="file" if from_partition else partitioner,
        costs=_costs_of(given, costs),
        batch=batch,
        blocks=options.number_of_blocks(blocks),
        fc=fc,
        seed=seed,
        row_blocks=row_blocks,
        batch_norm=batch_norm,
        pins=pins,
    )
    settings = settled_aloud(settings)
    folder = out or Path("results") / f"{loaded.name}-k{settings.k}-{settings.grain}"
    check_folder(folder)
    if from_partition and not out and folder.resolve() == from_partition.parent.resolve():
        raise UsageError(f"{from_partition} lies in {folder}/, whose files would be replaced; name a folder with --out")
    with held(folder):
        with progress(f"measuring {loaded.name}") as shown:
            if place is not None:
                watch = api.Watch(time_limit, on_progress=shown.on_progress)
                found = api.run_by_time(
                    loaded.module,
                    loaded.sample,
                    settings,
                    place,
                    api.FlowWish(schedule, recompute=recompute or AUTO, offload=offload or AUTO),
                    given_profile=given,
                    watch=watch,
                    on_layer=shown.on_layer,
                )
                _show_time(found, place, folder, is_json=json, html=html, survive_every=survive_every)
                return
            placement = api.run(
                loaded.module,
                loaded.sample,
                settings,
                given_profile=given,
                read_partition=(lambda h: _read_vector(from_partition, h, k)) if from_partition else None,
                watch=api.Watch(time_limit, on_progress=shown.on_progress),
                on_layer=shown.on_layer,
            )
        _write(folder, placement)
        _report(placement, folder, is_json=json, html=html)


def _report(placement: "Placement", folder: Path, *, is_json: bool, html: bool) -> None:
    """Write a page of it where one is wanted, and show it, or its figures."""
    from hyperplace import api
    from hyperplace.report import plan_document

    if is_json and not html:
        print(json_text.dumps(_summary(placement, folder)))
        return
    memory = api.run_memory(placement.graph, placement.plan)
    others = [*api.grain_rows(placement), *api.baselines(placement)]
    document = plan_document(placement.plan, others, (placement.profile, placement.hypergraph), memory)
    if html:
        _write_page(folder, placement, document)
    if is_json:
        print(json_text.dumps(_summary(placement, folder)))
    else:
        _show(placement, document, folder, html=html)


def _refuse_beside_cluster(given: dict[str, object]) -> None:
    if used := [name for name, value in given.items() if value is not None]:
        raise UsageError(f"--cluster searches by time, and {used[0]} would do nothing; leave one of them out")


def _show_time(
    found: "TimePlan", cluster: "Cluster", folder: Path, *, is_json: bool, html: bool, survive_every: int | None
) -> None:
    """Write the files and the cluster, and show what the plan and others would take."""
    from rich.console import Console

    from hyperplace import api
    from hyperplace.files.cluster import cluster_text
    from hyperplace.files.write import write_text
    from hyperplace.report import forecast_document, show
    from hyperplace.values.relief import chosen_text

    write_text(folder / CLUSTER, cluster_text(cluster))
    _write(folder, found.placement)
    placement, best = found.placement, found.best
    flow = api.FlowWish(best.schedule)
    bound = api.time_bound(placement.graph, placement.profile, placement.plan.settings, cluster, flow)
    document = forecast_document(found.forecasts, cluster, bound, survive_every)
    if html:
        _write_page(folder, placement, document)
    if is_json:
        figures = {"seconds_per_batch": best.seconds, "bound_seconds": bound.seconds, "binds": best.binds}
        figures |= {"bound_binds": bound.binds}
        figures |= {"schedule": best.schedule, "in_flight": best.in_flight, "micro_batches": best.micro_batches}
        figures |= {way: chosen_text(some) for way, some in best.relief.items()}
        figures |= {"memory_bytes": [part.total for part in best.memory]}
        figures |= survive_figures(best, cluster, survive_every)
        print(json_text.dumps(_summary(placement, folder) | figures | {"cluster": str(folder / CLUSTER)}))
        return
    show(document.without_figures(), Console(highlight=False))
    words = f"--in-flight {best.in_flight}"
    words += f" --micro-batches {best.micro_batches}" if best.schedule == "sync" else ""
    words += "".join(f" --{way} {chosen_text(some)}" for way, some in best.relief.items() if some)
    say(f"\nwritten to {folder}/: {', '.join((*FILES.values(), CLUSTER, *[PAGE] * html))}")
    say(
        f"train it with: hyperplace train {folder / FILES['plan']} --cluster {folder / CLUSTER} "
        f"--schedule {best.schedule} {words}"
    )


def _read_profile(path: Path) -> "Profile":
    from hyperplace.files.profile import parse_profile
    from hyperplace.files.write import read_text

    return parse_profile(read_text(path), str(path))


def _costs_of(given: "Profile | None", asked: str | None) -> str:
    """Return the plan's costs: those of the profile, where one is given, and then no others may be asked for."""
    if given is None:
        return "flops" if asked is None else asked
    if asked not in (None, given.costs):
        raise UsageError(f"--costs {asked}, but the profile is of {given.costs} costs; leave out --costs or --profile")
    return given.costs


def _read_vector(path: Path, hypergraph: "Hypergraph", k: int | None) -> "Partition":
    from hyperplace.files.vector import parse_vector
    from hyperplace.files.write import read_text

    return parse_vector(read_text(path), str(path), hypergraph.num_vertices, k)


def _write(folder: Path, placement: "Placement") -> None:
    """Write the plan last: where there is one, the rest is there too."""
    from hyperplace.api import save_plan
    from hyperplace.files.hypergraph import write_hypergraph
    from hyperplace.files.vector import vector_text
    from hyperplace.files.write import write_text
    from hyperplace.report.planfigure import plan_figure

    write_hypergraph(folder / FILES["hypergraph"], placement.hypergraph, "patoh")
    write_text(folder / FILES["partition"], vector_text(placement.partition))
    write_figure(folder / FILES["figure"], plan_figure(placement.plan))
    save_plan(placement.plan, folder / FILES["plan"])


def _summary(placement: "Placement", folder: Path) -> dict[str, Any]:
    settings, metrics, hypergraph = placement.plan.settings, placement.plan.metrics, placement.hypergraph
    return {
        "model": settings.model,
        "k": settings.k,
        "imbalance": settings.imbalance,
        "grain": settings.grain,
        "partitioner": settings.partitioner,
        "costs": settings.costs,
        "batch": settings.batch,
        "blocks": settings.blocks if settings.blocks else "all",
        "row_blocks": settings.row_blocks,
        "batch_norm": settings.batch_norm,
        "fc": settings.fc,
        "seed": settings.seed,
        "pins": str(settings.pins),
        "num_vertices": hypergraph.num_vertices,
        "num_nets": hypergraph.num_nets,
        "num_pins": hypergraph.num_pins,
        "work_per_part": list(metrics.work_per_part),
        "work_unit": metrics.work_unit,
        "max_over_avg": metrics.max_over_avg,
        "volume_bytes": metrics.volume_bytes,
        "training_volume_bytes": metrics.training_volume_bytes,
        "moved_bytes": [
            {"way": way, "source": source, "target": target, "bytes": num_bytes}
            for (way, source, target), num_bytes in sorted(placement.plan.moved_bytes.items())
        ],
        "data_parallel_bytes": metrics.data_parallel_bytes,
        "num_messages": len(placement.plan.messages),
        "feasible": metrics.feasible,
        "found_by": metrics.found_by,
        "bound_bytes": metrics.bound_bytes,
        "gap": metrics.gap,
        "verdict": placement.plan.verdict,
        "is_cut_short": metrics.is_cut_short,
        "left_out": list(placement.left_out),
        "grains": {p.plan.settings.grain: p.plan.metrics.training_volume_bytes for p in (placement, *placement.others)},
        "seconds": placement.seconds,
        **{what: str(folder / name) for what, name in FILES.items()},
    }


def _write_page(folder: Path, placement: "Placement", document: "Document") -> None:
    """Write the plan's network with the document below it."""
    from hyperplace.files.write import write_text
    from hyperplace.report.page import Subject, plan_page

    write_text(folder / PAGE, plan_page(Subject(placement.plan), document=document))


def _show(placement: "Placement", document: "Document", folder: Path, *, html: bool) -> None:
    from rich.console import Console

    from hyperplace.report import show

    show(document, Console(highlight=False))
    if placement.left_out:
        say(f"\ncut or left out at the time limit: {', '.join(placement.left_out)}; --time-limit 0 runs all to the end")
    seconds = ", ".join(f"{step} {s:.1f} s" for step, s in placement.seconds.items())
    say(f"\n{seconds}\nwritten to {folder}/: {', '.join((*FILES.values(), *[PAGE] * html))}")
