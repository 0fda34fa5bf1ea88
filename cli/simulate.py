"""`hyperplace simulate`: what plans would take on a cluster, and who would be busy."""

import json as json_text
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hyperplace.errors import UsageError
from hyperplace.values.bench import ASYNC, SYNC
from hyperplace.values.relief import AUTO, chosen_text

from . import options
from .folder import check_folder, write_document
from .planned import Subject, find_planned, parsed_shapes
from .terminal import progress, say

if TYPE_CHECKING:
    from hyperplace.values.cluster import Cluster
    from hyperplace.values.forecast import Forecast
    from hyperplace.values.time_bound import TimeBound


def simulate(
    context: typer.Context,
    what: Annotated[str, typer.Argument(help="A model as for partition, or a plan file.", show_default=False)],
    cluster: Annotated[
        str, typer.Option(help="A cluster file, or a short form such as 4x1@1gbit or 2x4@10gbit,pcie: hosts x devices.")
    ],
    schedule: Annotated[str, typer.Option(help="async, sync or both.")] = "both",
    in_flight: Annotated[
        int | None, typer.Option(help="Mini-batches under way at once.", show_default="the best of several")
    ] = None,
    recompute: options.PlanRecompute = None,
    offload: options.PlanOffload = None,
    batch: options.Batch = 16,
    costs: options.Costs = "measured",
    sweep: Annotated[
        str | None, typer.Option(help="Vary the cluster: hosts=1,2,4,8 bandwidth=0.1,1,10gbit.", show_default="no")
    ] = None,
    survive_every: options.SurviveEvery = None,
    seed: options.Seed = 0,
    time_limit: options.TimeLimit = 20.0,
    model: options.PlannedModel = None,
    input: options.Input = None,
    out: options.Out = None,
    html: options.Html = False,
    json: options.Json = False,
) -> None:
    """Predict what a mini-batch takes on a cluster, by every method or by one plan, and what binds it."""
    from hyperplace import api
    from hyperplace.values.plan import Settings

    place = api.load_cluster(cluster)
    ways = (ASYNC, SYNC) if schedule == "both" else (schedule,)
    flows = [api.FlowWish(way, in_flight, recompute=recompute or AUTO, offload=offload or AUTO) for way in ways]
    subject = find_planned(Path(what), model, input) if what.endswith(".json") else Subject(what, parsed_shapes(input))
    if html and not out:
        raise UsageError("--html writes a page into the folder of --out; give one")
    if out:
        check_folder(out)
    loaded = subject.load()
    plan = subject.plan
    settings = (
        plan.settings
        if plan
        else Settings(
            model=loaded.name,
            k=place.num_devices,
            imbalance=0.1,
            grain="coarse",
            partitioner="auto",
            costs=costs,
            batch=batch,
            seed=seed,
        )
    )
    with progress(f"measuring {loaded.name}") as shown:
        graph = api.graph_for(settings, loaded.module, loaded.sample)
        profile = api.profile(graph, costs=costs, batch=settings.batch, threads=1, on_layer=shown.on_layer)
        if sweep:
            tables = parsed_sweep(" ".join((sweep, *context.args)))
            rows = api.sweep(graph, profile, settings, place, tables, flows, time_limit, shown.on_progress)
        elif plan:
            found = [api.forecast(graph, profile, plan, place, flow) for flow in flows]
        else:
            found = api.methods(
                graph, profile, settings, place, flows, api.Watch(time_limit, on_progress=shown.on_progress)
            )
    if sweep:
        _show_sweep(rows, out, is_json=json, html=html)
        return
    found.sort(key=lambda one: one.rank)
    # Of kernels, which the fine grain places one by one, nothing is proven.
    flow = next(flow for flow in flows if flow.schedule == found[0].schedule)
    bound = api.time_bound(graph, profile, settings, place, flow) if settings.grain != "fine" else None
    _show(found, place, bound, out, is_json=json, html=html, survive_every=survive_every)


def parsed_sweep(text: str) -> dict[str, list[str]]:
    """Return the values of hosts and bandwidth, such as `hosts=1,2,4 bandwidth=0.1,1,10gbit`."""
    found: dict[str, list[str]] = {}
    for word in text.split():
        name, _, values = word.partition("=")
        if name not in ("hosts", "bandwidth") or not values:
            raise UsageError(f"--sweep {word} is not of the form hosts=1,2,4 or bandwidth=0.1,1,10gbit")
        found[name] = values.split(",")
    rates = found.get("bandwidth", ["1gbit"])
    unit = rates[-1].lstrip("0123456789.")
    found["bandwidth"] = [rate if rate.endswith("bit") else rate + unit for rate in rates]
    found["hosts"] = [
        str(number) for number in options.integers(",".join(found.get("hosts", ["1,2,4,8"])), "--sweep hosts")
    ]
    return found


def _show(
    found: "Sequence[Forecast]",
    place: "Cluster",
    bound: "TimeBound | None",
    out: Path | None,
    *,
    is_json: bool,
    html: bool,
    survive_every: int | None,
) -> None:
    from rich.console import Console

    from hyperplace.files.timeline import trace_text
    from hyperplace.files.write import write_text
    from hyperplace.report import forecast_document, show

    document = forecast_document(found, place, bound, survive_every)
    files: tuple[str, ...] = ()
    if out:
        files = (*write_document(out, "simulation", document, html=html), "trace.json")
        write_text(out / "trace.json", trace_text(found[0].prediction.timeline))
    if is_json:
        print(json_text.dumps(_summary(found, place, bound) | survive_figures(found[0], place, survive_every)))
        return
    show(document, Console(highlight=False))
    if out:
        say(f"written to {out}/: {', '.join(files)}")


def _summary(found: "Sequence[Forecast]", place: "Cluster", bound: "TimeBound | None") -> dict[str, Any]:
    rows = [_row(one) for one in found]
    least = {"bound_seconds": bound.seconds, "bound_binds": bound.binds} if bound else {}
    return {"cluster": str(place), **least, **rows[0], "rows": rows}


def survive_figures(one: "Forecast", place: "Cluster", every: int | None) -> dict[str, Any]:
    """Return what it costs to be able to lose a host, where that is asked for."""
    from hyperplace.values.surviving import survive_cost

    if every is None:
        return {}
    cost = survive_cost(one, place, every)
    return {
        "survive_every": every,
        "seconds_per_batch_surviving": cost.seconds,
        "survive_share": cost.share,
        "survive_card_bytes": cost.card_bytes,
    }


def _row(one: "Forecast") -> dict[str, Any]:
    return {
        "method": one.name,
        "schedule": one.schedule,
        "in_flight": one.in_flight,
        "micro_batches": one.micro_batches,
        "seconds_per_batch": one.seconds,
        "images_per_s": one.images_per_s,
        "speed_up": one.speed_up,
        "busy": list(one.prediction.busy),
        "cards": [{"host": host, "way": way, "busy": share} for (host, way), share in one.prediction.cards.items()],
        "binds": one.binds,
        "memory_bytes": [part.total for part in one.memory],
        "recompute": chosen_text(one.recompute),
        "offload": chosen_text(one.offload),
        "lacks": one.lacks,
        "moved_bytes": one.moved_bytes,
    }


def _show_sweep(rows: "Sequence[tuple[int, str, Forecast]]", out: Path | None, *, is_json: bool, html: bool) -> None:
    from rich.console import Console

    from hyperplace.report import show, sweep_document

    document = sweep_document(rows)
    files = write_document(out, "sweep", document, html=html) if out else ()
    if is_json:
        print(json_text.dumps({"rows": [{"hosts": n, "bandwidth": rate, **_row(one)} for n, rate, one in rows]}))
        return
    show(document, Console(highlight=False))
    if out:
        say(f"written to {out}/: {', '.join(files)}")
