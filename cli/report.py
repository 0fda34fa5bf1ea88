"""`hyperplace report`: a plan as a page to look at in a browser."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hyperplace.errors import UsageError
from hyperplace.values.bench import ASYNC, SYNC

from . import options
from .folder import check_folder
from .planned import Subject, find_planned
from .terminal import progress, say

if TYPE_CHECKING:
    from hyperplace.report.page import Subject as Shown
    from hyperplace.values.cluster import Cluster
    from hyperplace.values.timeline import Timeline


@dataclass(frozen=True)
class Flow:
    """How the plan is predicted to run."""

    schedule: str
    in_flight: int
    micro_batches: int | None

    def __post_init__(self) -> None:
        if self.schedule not in (ASYNC, SYNC):
            raise UsageError(f"schedule {self.schedule!r} is unknown; choose one of {ASYNC}, {SYNC}")
        if self.in_flight < 1:
            raise UsageError(f"--in-flight {self.in_flight} is less than 1")
        if self.micro_batches is not None and self.schedule != SYNC:
            raise UsageError("--micro-batches is for --schedule sync; give both, or leave it out")
        if self.micro_batches is not None and self.micro_batches < 1:
            raise UsageError(f"--micro-batches {self.micro_batches} is less than 1")


def report(
    plan: Annotated[Path, typer.Argument(help="A plan file.", show_default=False)],
    out: Annotated[Path, typer.Option("--out", "-o", help="The file to write.")] = Path("report.html"),
    timeline: Annotated[
        Path | None, typer.Option(help="What a run measured: the trace.json of train --timeline.", show_default="none")
    ] = None,
    cluster: options.ClusterOption = None,
    against: Annotated[
        Path | None, typer.Option(help="Another plan of the same model, side by side.", show_default="none")
    ] = None,
    schedule: Annotated[str, typer.Option(help="What is predicted: async or sync.")] = "async",
    in_flight: Annotated[
        int, typer.Option(help="Mini-batches (sync: micro-batches) under way at once, as predicted.")
    ] = 4,
    micro_batches: Annotated[
        int | None, typer.Option(help="Pieces of a mini-batch, for sync.", show_default="k, or 1 with batch norm")
    ] = None,
    model: options.PlannedModel = None,
) -> None:
    """Write a plan as one HTML file: its network, parts and cards, timelines, and what another cluster would change."""
    from hyperplace.api import load_cluster, load_plan
    from hyperplace.files.timeline import read_timeline
    from hyperplace.files.write import write_text
    from hyperplace.report.page import plan_page

    check_folder(out.parent)
    flow = Flow(schedule, in_flight, micro_batches)
    files = [plan, *([against] if against else [])]
    plans = [load_plan(file) for file in files]
    most = max(one.settings.k for one in plans)
    place = load_cluster(cluster or f"{most}x1@1gbit")
    measured = _measured(read_timeline(timeline), timeline, plans[0].settings.k) if timeline else None
    remarks = [] if cluster else [f"no --cluster is given: times are for {most} hosts with a device and 1 Gbit/s each"]
    subjects = [_subject(file, model, place, flow, remarks) for file in files]
    page = plan_page(
        subjects[0], measured=measured, against=subjects[1] if against else None, remarks=list(dict.fromkeys(remarks))
    )
    write_text(out, page)
    say(f"written to {out}, {len(page.encode()) / 1e3:,.0f} kB: open it in a browser")


def _measured(found: "Timeline", path: Path, num_parts: int) -> "Timeline":
    if found.num_parts != num_parts:
        raise UsageError(f"{path} is of {found.num_parts} parts, the plan of {num_parts}; give the trace of this plan")
    return found


def _subject(path: Path, model: str | None, cluster: "Cluster", flow: Flow, remarks: list[str]) -> "Shown":
    """Return the plan with its time on the cluster; where its model is not at hand, without, and say so."""
    from hyperplace import api
    from hyperplace.report.page import Subject as Shown

    planned = api.load_plan(path)
    cluster.check_parts(planned.settings.k)
    try:
        found: Subject = find_planned(path, model, None)
    except UsageError as fault:
        remarks.append(f"no times: {fault}")
        return Shown(planned)
    with progress(f"predicting {planned.settings.model}") as shown:
        shown.on_progress(str(cluster))
        loaded = found.load()
        graph = api.graph_for(planned.settings, loaded.module, loaded.sample)
        made = api.outlook(
            graph, planned, cluster, flow.in_flight, schedule=flow.schedule, micro_batches=flow.micro_batches
        )
        return Shown(planned, made)
