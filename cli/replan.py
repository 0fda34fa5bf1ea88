"""`hyperplace replan`: plan again with what a measured run has shown."""

from pathlib import Path
from typing import Annotated

import typer

from . import options
from .folder import check_folder, held
from .planned import find_planned
from .terminal import progress, say


def replan(
    plan: Annotated[Path, typer.Argument(help="The plan file that was run.", show_default=False)],
    timeline: Annotated[Path, typer.Option(help="The trace of that run, as train --timeline writes it.")],
    cluster: options.ClusterOption = None,
    schedule: Annotated[str, typer.Option(help="async or sync.")] = "async",
    time_limit: options.TimeLimit = 20.0,
    model: options.PlannedModel = None,
    input: options.Input = None,
    out: options.Out = None,
) -> None:
    """Correct the costs by what every layer took in a run, and search for a faster plan with them."""
    from hyperplace import api
    from hyperplace.files.profile import profile_text
    from hyperplace.files.timeline import read_timeline
    from hyperplace.files.write import write_text

    subject = find_planned(plan, model, input)
    assert subject.plan is not None
    old = subject.plan
    place = api.load_cluster(cluster or f"1x{old.settings.k}")
    folder = out or plan.parent / "again"
    check_folder(folder)
    loaded = subject.load()
    flow = api.FlowWish(schedule)
    with held(folder), progress(f"measuring {loaded.name}") as shown:
        graph = api.graph_for(old.settings, loaded.module, loaded.sample)
        costs = api.profile(graph, costs="measured", batch=old.settings.batch, threads=1, on_layer=shown.on_layer)
        costs = api.corrected(graph, costs, old, read_timeline(timeline))
        before = api.forecast(graph, costs, old, place, flow)
        watch = api.Watch(time_limit, on_progress=shown.on_progress)
        found = api.place_by_time(graph, costs, old.settings, place, flow, watch).best
        write_text(folder / "profile.json", profile_text(costs))
        api.save_plan(found.plan, folder / "plan.json")
    gain = 100 * (1 - found.seconds / before.seconds)
    say(
        f"with what was seen the old plan takes {1e3 * before.seconds:,.1f} ms, the new one "
        f"{1e3 * found.seconds:,.1f} ms: {gain:.1f} % less ({found.name}, {found.binds})\n"
        f"written to {folder}/: profile.json, plan.json"
    )
