"""The plan that takes least time on a cluster: Graph + Profile + Cluster -> Forecasts, the fastest first.

Searches know bytes and work; which of the two a cluster waits for only a simulation can tell. So it judges candidates
of all kinds (candidates.py), and placements by rows at first and by filters after, with the border where that is
fastest, for they lose least to waiting. The best is then changed, by parts that change devices (swaps.py) or by a
layer or a piece of one at a time (moves.py), as long as that makes it faster; where there are few placements, all
of them are tried.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import combinations_with_replacement, product
from math import ceil, comb, prod
from typing import TYPE_CHECKING, Any

import numpy as np

from hyperplace.by_time.candidates import (
    GRAINS,
    any_imbalance,
    made_candidates,
    placements,
    searched_candidates,
    settled,
    simple_plans,
)
from hyperplace.by_time.moves import ROWS_FIRST, Splits, neighbours
from hyperplace.by_time.owners import other_owners
from hyperplace.by_time.remedies import smallest_change
from hyperplace.by_time.swaps import swapped
from hyperplace.by_time.timing import FlowWish, forecast, held_back
from hyperplace.errors import BalanceError
from hyperplace.planning import OnLayer, Placement, checked_profile, graph_for, profile
from hyperplace.search import UNWATCHED, OnProgress, Watch
from hyperplace.steps.build import build
from hyperplace.steps.place import place
from hyperplace.values.arrays import Ints
from hyperplace.values.cluster import Cluster, Host, parse_rate
from hyperplace.values.forecast import Forecast
from hyperplace.values.graph import Graph
from hyperplace.values.hosts import hosts_of
from hyperplace.values.layout import Layout, layout_of
from hyperplace.values.methods import BY_TIME, COARSE, DATA_PARALLEL, HYBRID, INCREMENTAL, LAYERWISE, SERVERS
from hyperplace.values.partition import Partition
from hyperplace.values.pins import Bond
from hyperplace.values.plan import Plan, Settings
from hyperplace.values.profile import Profile

if TYPE_CHECKING:
    from torch import nn

METHODS = (LAYERWISE, INCREMENTAL, COARSE, HYBRID, DATA_PARALLEL, *SERVERS)  # in tables, beside the plan by time
TABLE_IMBALANCE = 0.02  # of the searches in tables
FEW = 1000  # placements that are all tried
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
    settings = replace(settings, hosts=hosts_of(cluster, settings.k))
    bonds = settings.pins.bonds(graph, settings.k)
    begin, judge = time.monotonic(), _Judge(graph, costs, cluster, flow or FlowWish(), bonds)
    end = begin + watch.time_limit_s if watch.time_limit_s else None

    def is_over() -> bool:
        return end is not None and time.monotonic() > end

    splits = Splits.of(graph, costs, settings, [device.speed for device in cluster.devices[: settings.k]])
    found = [*_made(judge, settings), *_rows_first(judge, splits, settings, is_over)]
    best = min(found, key=lambda pair: pair[0].rank)
    if better := _first_better(judge, best, _few(judge, settings), is_over, to_the_end=True):
        found.append(better)
    found += _searched(judge, settings, is_over, watch)
    found.sort(key=lambda pair: pair[0].rank)
    for start in tuple(found[:STARTS]):
        better = _improved(judge, splits, start, is_over, watch)
        if better[0].rank < found[0][0].rank:
            found.insert(0, better)
    for start in tuple(found[:STARTS]):
        better = _reowned(judge, start, is_over)
        if _is_better(better[0], found[0][0]):
            found.insert(0, better)
    if lacks := found[0][0].lacks:
        change = smallest_change(
            graph,
            costs,
            cluster,
            judge.flow,
            [one.plan for one, _ in found],
            lambda number: simple_plans(graph, costs, replace(settings, k=number, hosts=()), watch),
        )
        raise BalanceError(f"no placement found fits into the memory of its devices: {lacks}; {change}")
    forecasts = [forecast for forecast, _ in found]
    return TimePlan((held_back(forecasts[0], forecasts), *forecasts[1:]), found[0][1])


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
    bonds: tuple[Bond, ...]  # what the pins ask of the layers
    known: list[float] = field(default_factory=list)  # the seconds of plans so far that fit into memory

    def keeps_pins(self, layout: Layout) -> bool:
        """Say whether every layer is where the pins let it be."""
        return all(bond.holds_in(layout) for bond in self.bonds)

    def __call__(self, name: str, plan: Plan) -> Forecast:
        best_s = min(self.known, default=None)
        found = forecast(self.graph, self.costs, plan, self.cluster, self.flow, name, enough_s=best_s)
        if not found.lacks:
            self.known.append(found.seconds)
        return found


def _made(judge: _Judge, settings: Settings) -> Iterator[tuple[Forecast, Placement]]:
    """Yield candidates that need no search, with what they take."""
    for name, made in made_candidates(judge.graph, judge.costs, settings, judge.cluster):
        yield judge(name, made.plan), made


def _searched(
    judge: _Judge, settings: Settings, is_over: Callable[[], bool], watch: Watch
) -> Iterator[tuple[Forecast, Placement]]:
    """Yield what searches find, with what it takes, as long as there is time."""
    for name, made in searched_candidates(judge.graph, judge.costs, settings, judge.cluster, watch):
        yield judge(name, made.plan), made
        if is_over():
            watch.on_left_out("searches by time")
            return


def _rows_first(
    judge: _Judge, splits: Splits, settings: Settings, is_over: Callable[[], bool]
) -> list[tuple[Forecast, Placement]]:
    """Return placements by rows up to a border, and by filters after: some borders, then those near the best."""
    number = splits.num_borders
    tried: dict[int, tuple[Forecast, Placement]] = {}
    stride, borders = ceil(number / BORDERS), range(0, number, ceil(number / BORDERS))
    while True:
        for border in borders:
            is_new = 0 <= border < number and border not in tried
            if is_new and judge.keeps_pins(splits.with_border(border)) and not is_over():
                tried[border] = _with_border(judge, splits, settings, border)
        if stride == 1 or not tried or is_over():
            return list(tried.values())
        stride, best = ceil(stride / 2), min(tried, key=lambda border: tried[border][0].rank)
        borders = range(best - stride, best + stride + 1, stride)


def _with_border(judge: _Judge, splits: Splits, settings: Settings, border: int) -> tuple[Forecast, Placement]:
    own = replace(settings, grain="hybrid", partitioner="auto", row_blocks=settings.batch)
    made = settled(judge.graph, judge.costs, splits.with_border(border), own)
    return judge(f"{ROWS_FIRST} {border}", made.plan), made


def _improved(
    judge: _Judge, splits: Splits, start: tuple[Forecast, Placement], is_over: Callable[[], bool], watch: Watch
) -> tuple[Forecast, Placement]:
    """Return the best that can be reached from a placement by moving what lies together on it."""
    best, made = start
    while better := _first_better(judge, (best, made), _neighbours(judge, best, made, splits), is_over):
        best, made = better
        watch.on_progress(f"{best.seconds:.4g} s")
    return best, made


def _reowned(
    judge: _Judge, start: tuple[Forecast, Placement], is_over: Callable[[], bool]
) -> tuple[Forecast, Placement]:
    """Return a placement with the owners of its replicas that take least time."""
    best, made = start
    for name, plan in other_owners(made.plan, judge.cluster, best.prediction.busy):
        if is_over():
            break
        tried = judge(f"{start[0].name}, owners {name}", plan)
        if _is_better(tried, best):
            best, made = tried, replace(made, plan=plan)
    return best, made


def _neighbours(judge: _Judge, best: Forecast, made: Placement, splits: Splits) -> Iterator[Layout]:
    """Yield what a placement may become in one step."""
    for part_of in swapped(made.partition.part_of, judge.cluster, best.prediction.busy):
        yield _with_parts(made, part_of)
    yield from neighbours(made, splits, [bond.layers for bond in judge.bonds if len(bond.layers) > 1])


def _with_parts(made: Placement, part_of: Ints) -> Layout:
    """Return a placement with its vertices elsewhere."""
    return layout_of(made.hypergraph, Partition(part_of, made.partition.num_parts, BY_TIME), made.plan.settings.batch)


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
    for layout in filter(judge.keeps_pins, layouts):
        if is_over() or (found is not None and not to_the_end):
            break
        settings = _settings_of(start[1], layout)
        tried = judge(BY_TIME, place(judge.graph, judge.costs, layout, settings))
        if _is_better(tried, best):
            best, found = tried, layout
    if found is None:
        return None
    return best, settled(judge.graph, judge.costs, found, _settings_of(start[1], found))


def _is_better(one: Forecast, other: Forecast) -> bool:
    return one.rank < (other.lacking_bytes, other.seconds * (1 - GAIN))


def _settings_of(made: Placement, layout: Layout) -> Settings:
    """Return the settings of a placement for another layout, which may split rows."""
    grain = "hybrid" if layout.row_cuts else made.plan.settings.grain
    return replace(made.plan.settings, grain=grain, imbalance=any_imbalance(layout.num_parts))


def _few(judge: _Judge, settings: Settings) -> Iterator[Layout]:
    """Yield all placements of a grain's blocks, where they are few; of a layer's only how many are where matters."""
    for grain in GRAINS:
        cut = partial(build, blocks=settings.blocks, fc=settings.fc, row_blocks=settings.row_blocks)
        hypergraph = cut(judge.graph, judge.costs, grain=grain)
        assert hypergraph.labels is not None, "built from a model"
        sizes = np.bincount(hypergraph.labels.layer_of).tolist()
        if prod(comb(size + settings.k - 1, size) for size in sizes if size) <= FEW:
            ways = (combinations_with_replacement(range(settings.k), size) for size in sizes)
            for chosen in product(*ways):
                part_of = np.array([part for some in chosen for part in some], np.int64)
                yield layout_of(hypergraph, Partition(part_of, settings.k, BY_TIME), settings.batch)


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
    settings = replace(settings, hosts=hosts_of(cluster, settings.k))
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
        loose = replace(own, imbalance=any_imbalance(settings.k)) if partitioner != "auto" else own
        yield from ((name, made.plan) for name, made in placements(graph, costs, loose, name, watch, None))


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

    Half of the time is for the methods' plans, the other half for the plans for least time; of these the fastest of all
    is taken where the search for it had too little of it.
    """
    watch, numbers = Watch(on_progress=on_progress, on_left_out=lambda what: None), values["hosts"]
    for_plans = replace(watch, time_limit_s=time_limit_s / 2 / len(METHODS) / len(numbers))
    for_time = replace(watch, time_limit_s=time_limit_s / 2 / len(flows) / len(numbers) / len(values["bandwidth"]))
    found = []
    for hosts in map(int, numbers):
        k = hosts * len(cluster.hosts[0].devices)
        own = replace(settings, k=k, hosts=hosts_of(_like(cluster.hosts[0], hosts, 1.0), k))
        on_progress(f"{hosts} hosts")
        plans = list(_method_plans(graph, costs, own, for_plans))
        for rate in values["bandwidth"]:
            there = _like(cluster.hosts[0], hosts, parse_rate(rate))
            for flow in flows:
                some = [forecast(graph, costs, plan, there, flow, name) for name, plan in plans]
                if k > 1:
                    on_progress(f"{hosts} hosts at {rate}, {BY_TIME}")
                    some.append(place_by_time(graph, costs, own, there, flow, for_time).best)
                best = replace(min(some, key=lambda one: one.rank), name=BY_TIME)
                found += [(hosts, rate, one) for one in (*some[: len(plans)], best)]
    return found


def _like(host: Host, number: int, rate: float) -> Cluster:
    return Cluster(tuple(replace(host, name=f"host {n}", out_rate=rate, in_rate=rate) for n in range(number)))
