"""From a model to its plan: capture -> profile -> build -> partition -> place.

Every function here takes finished values and returns a new one; `run` does the whole chain and keeps everything in
between, with the seconds each step took.
"""

import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

from hyperplace.errors import FileError, ModelError, UsageError
from hyperplace.files.plan import parse_plan, plan_text
from hyperplace.files.profile import cache_path, graph_mark, parse_profile, profile_text
from hyperplace.files.write import read_text, write_text
from hyperplace.search import (
    UNWATCHED,
    Candidate,
    Watch,
    check_name,
    hypergraph_of,
    only_grain,
    search,
    search_grains,
)
from hyperplace.steps.build import build
from hyperplace.steps.partition import partition as _partition
from hyperplace.values.graph import Graph
from hyperplace.values.hypergraph import Hypergraph
from hyperplace.values.layout import Layout, layout_of, partition_of
from hyperplace.values.partition import Partition, volume_bytes
from hyperplace.values.plan import AUTO, COSTS, MOST_ROWS, Plan, Settings
from hyperplace.values.profile import Profile

if TYPE_CHECKING:
    from torch import nn

OnLayer = Callable[[int, int, str], None]  # done, total, name
T = TypeVar("T")


def capture(model: "nn.Module", sample: Any, *, tries_uses: bool = False) -> Graph:
    """Return the layers of a model for a sample input.

    That is a tensor of shape (rows, channels, ...), a tuple of arguments, or a dict of keyword arguments. Whether the
    model does the same with one row, and in evaluation mode, is only found out where `tries_uses`.
    """
    from torch import nn

    from hyperplace.steps.capture import capture as step

    if not isinstance(model, nn.Module):
        raise ModelError(f"{str(model)[:60]!r} is a {type(model).__name__}; give an nn.Module")
    return step(model, sample, tries_uses=tries_uses)


def graph_for(settings: Settings, model: "nn.Module", sample: Any, *, tries_uses: bool = False) -> Graph:
    """Return the captured model as the settings want it planned."""
    graph = capture(model, sample, tries_uses=tries_uses)
    settings.pins.bonds(graph, settings.k)  # refuses those that cannot hold, before anything takes its time
    if graph.has_fixed_rows and graph.rows != settings.batch:
        raise ModelError(
            f"the model's code works for {graph.rows} rows only, as its sample has, and not for a batch of "
            f"{settings.batch}; plan for a batch of {graph.rows}, or give a sample of {settings.batch} rows"
        )
    return graph.without_statistics() if settings.batch_norm == "per-shard" else graph


def profile(
    graph: Graph,
    *,
    costs: str = "measured",
    batch: int = 32,
    device: str = "cpu",
    threads: int | None = None,
    rounds: int | None = None,
    use_cache: bool = True,
    on_layer: OnLayer | None = None,
) -> Profile:
    """Return what every layer costs for a batch: measured here (and remembered), or counted FLOPs.

    With `rounds` every layer is measured so often, whatever is remembered, and costs the middle of what was seen.
    """
    if not 1 <= batch <= MOST_ROWS:
        raise UsageError(f"batch {batch} is outside 1..{MOST_ROWS:,}; give the rows of a mini-batch")
    if costs not in COSTS:
        raise UsageError(f"costs {costs!r} are unknown; choose one of {', '.join(COSTS)}")
    if costs == "flops":
        from hyperplace.steps.profile.work import count_flops

        return replace(count_flops(graph, batch), graph=graph_mark(graph))
    from hyperplace.steps.profile.measure import measure

    path = cache_path(graph, batch, device, threads)
    if use_cache and rounds is None and path and os.path.exists(path):
        with suppress(FileError, UsageError):  # a cache that is broken, or of another model, is worth no more than none
            return checked_profile(parse_profile(read_text(path), str(path)), graph, batch, str(path))
    every = 1 if rounds is None else rounds
    measured = measure(graph, batch, device=device, threads=threads, rounds=every, on_layer=on_layer)
    measured = replace(measured, graph=graph_mark(graph))
    if path:
        with suppress(FileError):  # a cache that cannot be written only costs the next run its time
            write_text(path, profile_text(measured))
    return measured


def checked_profile(found: Profile, graph: Graph, batch: int, name: str) -> Profile:
    """Return a profile from elsewhere, or say why it is not of this model and batch."""
    own, theirs = {layer.name for layer in graph.layers}, {cost.layer for cost in found.layers}
    if found.batch != batch:
        raise UsageError(f"{name} was measured for a batch of {found.batch}, not of {batch}; plan for the same rows")
    if own != theirs or found.graph not in ("", graph_mark(graph)):
        odd = sorted(own ^ theirs)
        which = f": layer {odd[0]} is in only one of them" if odd else ": its layers have other sizes"
        raise UsageError(f"{name} is of another model{which}; measure this one")
    return found


def partition(
    hypergraph: Hypergraph, k: int, imbalance: float, *, partitioner: str = "kahypar", seed: int = 0
) -> Partition:
    """Return a partition of the hypergraph into k parts, none heavier than (1 + imbalance) x the average."""
    return _partition(hypergraph, k, imbalance, partitioner=partitioner, seed=seed)


@dataclass(frozen=True)
class Placement:
    """Everything one run made, from the graph to the plan, and the seconds of each step.

    The layout is also there as a partition of a hypergraph that is cut where its owners change. Where all grains were
    tried, `others` are those that move more, the best first, and `refused` says why any of them has no placement.
    """

    graph: Graph
    profile: Profile
    layout: Layout
    hypergraph: Hypergraph
    partition: Partition
    plan: Plan
    seconds: dict[str, float] = field(compare=False)  # of the whole run, by step
    search_s: float = field(default=0.0, compare=False)  # of the search that found this layout alone
    others: "tuple[Placement, ...]" = ()
    refused: dict[str, str] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()  # the searches that the time limit has cut or prevented


def run(
    model: "nn.Module",
    sample: Any,
    settings: Settings,
    *,
    given_profile: Profile | None = None,
    read_partition: Callable[[Hypergraph], Partition] | None = None,
    watch: Watch = UNWATCHED,
    on_layer: OnLayer | None = None,
) -> Placement:
    """Take a model all the way to its plan.

    `given_profile` replaces the profile step; `read_partition` replaces the partitioner and may name another k. For
    grain "auto" see settled.
    """
    if read_partition is None:
        check_name(settings.partitioner)
    settings, clock = settled(settings), Clock()
    graph = clock.timed("capture", lambda: graph_for(settings, model, sample))
    if given_profile:
        costs = checked_profile(given_profile, graph, settings.batch, "the profile")
    else:
        costs = clock.timed(
            "profile", lambda: profile(graph, costs=settings.costs, batch=settings.batch, on_layer=on_layer)
        )
    if read_partition:
        blocks, rows = settings.blocks, settings.row_blocks
        hypergraph = build(graph, costs, grain=settings.grain, blocks=blocks, fc=settings.fc, row_blocks=rows)
        found = read_partition(hypergraph)
        layout = layout_of(hypergraph, found, settings.batch)
        return placed(graph, costs, layout, replace(settings, k=found.num_parts), clock)
    left_out: list[str] = []

    def note(what: str) -> None:
        left_out.append(what)
        watch.on_left_out(what)

    placement = _searched(graph, costs, settings, replace(watch, on_left_out=note), clock)
    return replace(placement, left_out=tuple(left_out))


def settled(settings: Settings) -> Settings:
    """Return the settings with one grain where only one can be meant.

    That is so for whatever sees only a hypergraph: a partition from a file, a general partitioner, a baseline.
    """
    grain = only_grain(settings.partitioner)
    return replace(settings, grain=grain) if grain and settings.grain == AUTO else settings


def _searched(graph: Graph, costs: Profile, settings: Settings, watch: Watch, clock: "Clock") -> Placement:
    """Return the best placement of the settings' grain, or of all."""
    if settings.grain == AUTO:
        grains = clock.timed("partition", lambda: search_grains(graph, costs, settings, watch))
        return _best_of(graph, costs, grains, settings, clock)
    layout = clock.timed("partition", lambda: search(graph, costs, settings, watch))
    placement = placed(graph, costs, layout, settings, clock)
    return replace(placement, search_s=clock.seconds["partition"])


def placed(graph: Graph, costs: Profile, layout: Layout, settings: Settings, clock: "Clock") -> Placement:
    """Return the placement of a layout; what its plan moves is counted twice, by messages and by nets."""
    from hyperplace.steps.place import check_volume
    from hyperplace.steps.place import place as place_step

    settings = replace(settings, costs=costs.costs)  # a profile that was given need not be of the costs asked for
    plan = clock.timed("place", lambda: place_step(graph, costs, layout, settings))
    hypergraph = hypergraph_of(graph, costs, layout, settings)
    partition = partition_of(layout, hypergraph)
    check_volume(plan, volume_bytes(hypergraph, partition))
    return Placement(graph, costs, layout, hypergraph, partition, plan, clock.seconds)


def _best_of(
    graph: Graph, costs: Profile, grains: dict[str, Candidate | str], settings: Settings, clock: "Clock"
) -> Placement:
    """Return the placement of the grain that moves least in training, with the others beside it."""
    placements = [
        replace(placed(graph, costs, found.layout, replace(settings, grain=grain), clock), search_s=found.seconds)
        for grain, found in grains.items()
        if not isinstance(found, str)
    ]
    best, *others = sorted(placements, key=lambda placement: placement.plan.metrics.training_volume_bytes)
    refused = {grain: reason for grain, reason in grains.items() if isinstance(reason, str)}
    return replace(best, others=tuple(others), refused=refused)


def place_graph(graph: Graph, costs: Profile, settings: Settings, *, time_limit_s: float = 20.0) -> Plan:
    """Return the plan of a model that is captured and profiled already; Ctrl-C ends it like any other work."""
    return _searched(graph, costs, settled(settings), Watch(time_limit_s, keeps_best=False), Clock()).plan


def plan_of_fewer(graph: Graph, plan: Plan, k: int, share: Callable[[Callable[[], str]], str]) -> Plan:
    """Return a plan of fewer parts by the same settings; `share` gives all processes the text that one makes."""
    settings = replace(plan.settings, k=k, hosts=())  # which parts are left on which host nobody knows yet
    if settings.partitioner == "file":
        settings = replace(settings, partitioner="auto")

    def found() -> str:
        return plan_text(place_graph(graph, profile(graph, costs=settings.costs, batch=settings.batch), settings))

    return parse_plan(share(found), f"the plan for {k} parts")


def told_plan(plan: Plan) -> str:
    """Return a plan as the text in which processes tell it each other."""
    return plan_text(plan)


def heard_plan(text: str) -> Plan:
    """Return the plan that another process has told."""
    return parse_plan(text, "the plan of the run")


class Clock:
    """The seconds of named steps."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def timed(self, step: str, work: Callable[[], T]) -> T:
        start = time.perf_counter()
        result = work()
        self.seconds[step] = time.perf_counter() - start
        return result
