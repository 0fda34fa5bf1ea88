"""The plan that takes least time on a cluster: Graph + Profile + Cluster -> Forecasts, the fastest first.

Searches know bytes and work; which of the two a cluster waits for only a simulation can tell. So several searches, from
tight to loose in the balance of work, make candidates, each device with work in proportion to its speed, and the
simulation judges them all; so it does placements by rows at first and by filters after, with the border where that is
fastest, for they lose least to waiting. The best is then changed, a layer or a piece of one at a time, as long as that
makes it faster; where there are few placements, all of them are tried instead.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import ceil
from typing import TYPE_CHECKING, Any

import numpy as np

from hyperplace.errors import BalanceError, PartitionerError
from hyperplace.planning import Clock, OnLayer, Placement, checked_profile, graph_for, placed, profile
from hyperplace.search import UNWATCHED, OnProgress, Watch, search
from hyperplace.steps.place import place
from hyperplace.time_moves import ROWS_FIRST, Splits, neighbours
from hyperplace.timing import FlowWish, forecast
from hyperplace.values.capacities import Capacities
from hyperplace.values.cluster import Cluster, Host, parse_rate
from hyperplace.values.forecast import Forecast
from hyperplace.values.graph import Graph
from hyperplace.values.layout import Layout, Plane, layout_of
from hyperplace.values.methods import BY_TIME, COARSE, DATA_PARALLEL, HYBRID, INCREMENTAL, LAYERWISE, SERVERS
from hyperplace.values.partition import Partition
from hyperplace.values.plan import Plan, Settings
from hyperplace.values.profile import Profile

if TYPE_CHECKING:
    from torch import nn

METHODS = (LAYERWISE, INCREMENTAL, COARSE, HYBRID, DATA_PARALLEL, *SERVERS)  # in tables, beside the plan by time
TABLE_IMBALANCE = 0.02  # of the searches in tables
IMBALANCES = (0.01, 0.05, 0.2, 0.6)  # from where balance is all to where bytes are
GRAINS = ("coarse", "hybrid")
BASELINES = (LAYERWISE, INCREMENTAL, DATA_PARALLEL)
FEW = 600  # placements that are all tried
SEARCH_SHARE = 0.6  # of the time, for candidates
STARTS = 3  # the best candidates, from which it goes on
BORDERS = 8  # tried at first between layers by rows and layers by filters
GAIN = 1e-4  # of the time: what is less is none


@dataclass(frozen=True)
class TimePlan:
    """The forecasts of all candidates, those that fit into memory first, the fastest of them first."""

    forecasts: tuple[Forecast, ...]
    placement: Placement  # of the first

    @property
    def best(self) -> Forecast:
        return self.forecasts[0]


def place_by_time(
    graph: Graph,
    costs: Profile,
    settings: Settings,
    cluster: Cluster,
    flow: FlowWish | None = None,
    watch: Watch = UNWATCHED,
) -> TimePlan:
    """Return the plan that takes least time on the first k devices of a cluster, and what others take."""
    cluster.check_parts(settings.k)
    begin, judge = time.monotonic(), _Judge(graph, costs, cluster, flow or FlowWish())
    found = [(judge(name, made.plan), made) for name, made in _candidates(graph, costs, settings, cluster, watch)]
    splits = Splits.of(graph, costs, settings, [device.speed for device in cluster.devices[: settings.k]])
    found += _rows_first(judge, splits, settings)
    if not found:
        raise BalanceError(f"no method places the model on {settings.k} parts; try fewer")
    found.sort(key=lambda pair: pair[0].rank)
    end = begin + watch.time_limit_s if watch.time_limit_s else None
    for start in tuple(found[:STARTS]):
        better = _improved(judge, splits, start, lambda: end is not None and time.monotonic() > end, watch)
        if better[0].rank < found[0][0].rank:
            found.insert(0, better)
    if lacks := found[0][0].lacks:
        raise BalanceError(
            f"no placement found fits into the memory of its devices: {lacks}; take fewer mini-batches in flight, sync "
            "instead of async, or more devices"
        )
    return TimePlan(tuple(forecast for forecast, _ in found), found[0][1])


def run_by_time(
    model: "nn.Module",
    sample: Any,
    settings: Settings,
    cluster: Cluster,
    flow: FlowWish | None = None,
    *,
    given_profile: Profile | None = None,
    watch: Watch = UNWATCHED,
    on_layer: OnLayer | None = None,
) -> TimePlan:
    """Take a model all the way to the plan that takes least time on a cluster."""
    cluster.check_parts(settings.k)
    graph = graph_for(settings, model, sample)
    if given_profile:
        costs = checked_profile(given_profile, graph, settings.batch, "the profile")
    else:
        costs = profile(graph, costs=settings.costs, batch=settings.batch, threads=1, on_layer=on_layer)
    return place_by_time(graph, costs, settings, cluster, flow, watch)


@dataclass(frozen=True)
class _Judge:
    """What a plan takes."""

    graph: Graph
    costs: Profile
    cluster: Cluster
    flow: FlowWish

    def __call__(self, name: str, plan: Plan) -> Forecast:
        return forecast(self.graph, self.costs, plan, self.cluster, self.flow, name)


def _candidates(
    graph: Graph, costs: Profile, settings: Settings, cluster: Cluster, watch: Watch
) -> Iterator[tuple[str, Placement]]:
    speeds = [device.speed for device in cluster.devices[: settings.k]]
    searches = [(grain, imbalance) for imbalance in IMBALANCES for grain in GRAINS]
    limit_s = SEARCH_SHARE * watch.time_limit_s / len(searches)
    each = replace(watch, time_limit_s=limit_s, on_left_out=lambda what: None)
    for grain, imbalance in searches:
        own = replace(settings, grain=grain, partitioner="auto", imbalance=imbalance)
        limit = Capacities.shared(speeds, imbalance)
        yield from _placements(graph, costs, own, f"{grain} {imbalance:g}", each, limit)
    yield "one device", _on_one(graph, costs, settings, int(np.argmax(speeds)))
    for name, grain, partitioner in BASELINES:
        own = replace(settings, grain=grain, partitioner=partitioner, imbalance=_any_imbalance(settings.k))
        yield from _placements(graph, costs, own, name, each, None)


def _on_one(graph: Graph, costs: Profile, settings: Settings, part: int) -> Placement:
    """Return everything on one device, the others idle: what no network makes slower."""
    planes = {
        layer.name: Plane.by_lines(np.full(layer.num_filters, part, np.int64), settings.batch) for layer in graph.layers
    }
    loose = replace(settings, grain="coarse", partitioner="auto", imbalance=_any_imbalance(settings.k))
    return placed(graph, costs, Layout(planes, settings.k, found_by="one device"), loose, Clock())


def _any_imbalance(num_parts: int) -> float:
    """Return an imbalance that everything meets."""
    return float(max(1, num_parts - 1))


def _placements(
    graph: Graph, costs: Profile, settings: Settings, name: str, watch: Watch, limit: Capacities | None
) -> Iterator[tuple[str, Placement]]:
    """Yield the placement that a search finds, if it finds one."""
    try:
        layout = search(graph, costs, settings, watch, capacities=limit)
    except (BalanceError, PartitionerError):
        return
    yield name, _settled(graph, costs, layout, settings)


def _settled(graph: Graph, costs: Profile, layout: Layout, settings: Settings) -> Placement:
    """Return the placement of a layout, whose plan says how unequal its parts are: nobody has asked for less."""
    made = placed(graph, costs, layout, replace(settings, imbalance=_any_imbalance(settings.k)), Clock())
    imbalance = max(ceil(1e3 * (made.plan.metrics.max_over_avg - 1)) / 1e3, 0.0)
    own = replace(made.plan.settings, imbalance=imbalance)
    return replace(made, plan=replace(made.plan, settings=own))


def _rows_first(judge: _Judge, splits: Splits, settings: Settings) -> list[tuple[Forecast, Placement]]:
    """Return placements by rows up to a border, and by filters after: some borders, then those near the best."""
    number = splits.num_borders
    tried: dict[int, tuple[Forecast, Placement]] = {}
    stride, borders = ceil(number / BORDERS), range(0, number, ceil(number / BORDERS))
    while True:
        for border in borders:
            if 0 <= border < number and border not in tried:
                tried[border] = _with_border(judge, splits, settings, border)
        if stride == 1:
            return list(tried.values())
        stride, best = ceil(stride / 2), min(tried, key=lambda border: tried[border][0].rank)
        borders = range(best - stride, best + stride + 1, stride)


def _with_border(judge: _Judge, splits: Splits, settings: Settings, border: int) -> tuple[Forecast, Placement]:
    own = replace(settings, grain="hybrid", partitioner="auto", row_blocks=settings.batch)
    made = _settled(judge.graph, judge.costs, splits.with_border(border), own)
    return judge(f"{ROWS_FIRST} {border}", made.plan), made


def _improved(
    judge: _Judge, splits: Splits, start: tuple[Forecast, Placement], is_over: Callable[[], bool], watch: Watch
) -> tuple[Forecast, Placement]:
    """Return the best that can be reached from a placement by moving what lies together on it."""
    best, made = start
    num_parts, num_vertices = made.partition.num_parts, len(made.partition.part_of)
    if num_parts**num_vertices <= FEW:
        return _first_better(judge, start, _all(made), is_over, to_the_end=True) or start
    while better := _first_better(judge, (best, made), neighbours(made, splits), is_over):
        best, made = better
        watch.on_progress(f"{best.seconds:.4g} s")
    return best, made


def _first_better(
    judge: _Judge,
    start: tuple[Forecast, Placement],
    layouts: Iterator[Layout],
    is_over: Callable[[], bool],
    *,
    to_the_end: bool = False,
) -> tuple[Forecast, Placement] | None:
    """Return the first layout that is better than the start, or the best of all; None if there is none in time."""
    best, found = start[0], None
    for layout in layouts:
        if is_over() or (found is not None and not to_the_end):
            break
        settings = _settings_of(start[1], layout)
        tried = judge(BY_TIME, place(judge.graph, judge.costs, layout, settings))
        if _is_better(tried, best):
            best, found = tried, layout
    if found is None:
        return None
    return best, _settled(judge.graph, judge.costs, found, _settings_of(start[1], found))


def _is_better(one: Forecast, other: Forecast) -> bool:
    return one.rank < (bool(other.lacks), other.seconds * (1 - GAIN))


def _settings_of(made: Placement, layout: Layout) -> Settings:
    """Return the settings of a placement for another layout, which may split rows."""
    grain = "hybrid" if layout.row_cuts else made.plan.settings.grain
    return replace(made.plan.settings, grain=grain, imbalance=_any_imbalance(layout.num_parts))


def _all(made: Placement) -> Iterator[Layout]:
    num_parts = made.partition.num_parts
    for parts in product(range(num_parts), repeat=len(made.partition.part_of)):
        partition = Partition(np.array(parts, np.int64), num_parts, BY_TIME)
        yield layout_of(made.hypergraph, partition, made.plan.settings.batch)


def methods(
    graph: Graph,
    costs: Profile,
    settings: Settings,
    cluster: Cluster,
    flows: Sequence[FlowWish],
    watch: Watch = UNWATCHED,
) -> list[Forecast]:
    """Return what every method takes on a cluster, and what the plan for least time does, in every flow."""
    share = replace(watch, time_limit_s=watch.time_limit_s / (len(METHODS) + len(flows)), on_left_out=lambda what: None)
    plans = list(_method_plans(graph, costs, settings, share))
    found = [forecast(graph, costs, plan, cluster, flow, name) for flow in flows for name, plan in plans]
    for flow in flows if settings.k > 1 else ():
        best = place_by_time(graph, costs, settings, cluster, flow, share).best
        found.append(replace(best, name=BY_TIME))
    return found


def _method_plans(graph: Graph, costs: Profile, settings: Settings, watch: Watch) -> Iterator[tuple[str, Plan]]:
    kinds = METHODS if settings.k > 1 else (("one device", "coarse", "single"),)
    for name, grain, partitioner in kinds:
        watch.on_progress(name)
        own = replace(settings, grain=grain, partitioner=partitioner, imbalance=TABLE_IMBALANCE)
        loose = replace(own, imbalance=_any_imbalance(settings.k)) if partitioner != "auto" else own
        yield from ((name, made.plan) for name, made in _placements(graph, costs, loose, name, watch, None))


def sweep(
    graph: Graph,
    costs: Profile,
    settings: Settings,
    cluster: Cluster,
    values: Mapping[str, Sequence[str]],
    flows: Sequence[FlowWish],
    time_limit_s: float = 20.0,
    on_progress: OnProgress = lambda text: None,
) -> list[tuple[int, str, Forecast]]:
    """Return what every method takes on so many hosts like the cluster's first, with so much bandwidth.

    The plan for least time is the fastest of all, each method's as it would be run best.
    """
    found = []
    for hosts in map(int, values["hosts"]):
        own = replace(settings, k=hosts * len(cluster.hosts[0].devices))
        on_progress(f"{hosts} hosts")
        plans = list(_method_plans(graph, costs, own, Watch(time_limit_s / len(METHODS), on_progress=on_progress)))
        for rate in values["bandwidth"]:
            there = _like(cluster.hosts[0], hosts, parse_rate(rate))
            for flow in flows:
                some = [forecast(graph, costs, plan, there, flow, name) for name, plan in plans]
                best = replace(min(some, key=lambda one: one.rank), name=BY_TIME)
                found += [(hosts, rate, one) for one in (*some, best)]
    return found


def _like(host: Host, number: int, rate: float) -> Cluster:
    return Cluster(tuple(replace(host, name=f"host {n}", out_rate=rate, in_rate=rate) for n in range(number)))
