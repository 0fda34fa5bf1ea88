"""`hyperplace explain`: why a layer of a plan is where it is, and what other places would cost."""

import json as json_text
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from . import options
from .planned import find_planned
from .terminal import progress

if TYPE_CHECKING:
    from hyperplace.values.explanation import Explanation, Place


def explain(
    plan: Annotated[Path, typer.Argument(help="A plan file.", show_default=False)],
    layer: Annotated[str, typer.Argument(help="One of its layers.", show_default=False)],
    cluster: options.ClusterOption = None,
    schedule: Annotated[str, typer.Option(help="With --cluster: how plans are run, async or sync.")] = "async",
    costs: options.Costs = "measured",
    model: options.PlannedModel = None,
    input: options.Input = None,
    json: options.Json = False,
) -> None:
    """Show where a layer is, what it moves, and what other parts would cost: bytes, balance, with --cluster time."""
    from rich.console import Console

    from hyperplace import api
    from hyperplace.report import explanation_document, show

    if cluster is None:
        found = api.explain(api.load_plan(plan), layer)
    else:
        place, flow, subject = api.load_cluster(cluster), api.FlowWish(schedule), find_planned(plan, model, input)
        assert subject.plan is not None
        place.check_parts(subject.plan.settings.k)
        loaded, settings = subject.load(), subject.plan.settings
        with progress(f"measuring {loaded.name}") as shown:
            graph = api.graph_for(settings, loaded.module, loaded.sample)
            profile = api.profile(graph, costs=costs, batch=settings.batch, threads=1, on_layer=shown.on_layer)
            found = api.explain(subject.plan, layer, api.judge_on(graph, profile, place, flow))
    if json:
        print(json_text.dumps(_summary(found)))
    else:
        show(explanation_document(found), Console(highlight=False))


def _summary(found: "Explanation") -> dict[str, Any]:
    return {
        "layer": found.layer.name,
        "tied": list(found.tied),
        "shards": [
            {"part": owner.part, "filters": [list(span) for span in owner.filters], "rows": list(owner.rows)}
            for owner in found.layer.owners
        ],
        "received_bytes": found.received_bytes,
        "sent_bytes": found.sent_bytes,
        "partial_bytes": found.partial_bytes,
        "copy_bytes": found.copy_bytes,
        "beside": {str(part): list(layers) for part, layers in found.beside},
        "pins": str(found.plan.settings.pins),
        "here": _place(found.here),
        "others": [_place(place) for place in found.others],
    }


def _place(place: "Place") -> dict[str, Any]:
    metrics = place.plan.metrics
    return {
        "place": place.name,
        "volume_bytes": metrics.volume_bytes,
        "training_volume_bytes": metrics.training_volume_bytes,
        "max_over_avg": metrics.max_over_avg,
        "seconds_per_batch": place.seconds,
        "binds": place.binds,
        "breaks": list(place.breaks),
    }
