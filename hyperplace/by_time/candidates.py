"""Placements that the simulation may judge: Graph + Profile + Cluster -> named Placements.

Everything on one device, pipelines of stages, the baselines, and what searches find from tight to loose in the balance
of work, each device with work in proportion to its speed.
"""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from math import ceil

import numpy as np

from hyperplace.by_time.stages import staged_layouts
from hyperplace.errors import BalanceError, PartitionerError, UsageError
from hyperplace.planning import Clock, Placement, placed
from hyperplace.search import Watch, search
from hyperplace.values.capacities import Capacities
from hyperplace.values.cluster import Cluster
from hyperplace.values.graph import Graph
from hyperplace.values.layout import Layout, Plane
from hyperplace.values.methods import DATA_PARALLEL, INCREMENTAL, LAYERWISE
from hyperplace.values.plan import Plan, Settings
from hyperplace.values.profile import Profile

IMBALANCES = (0.01, 0.05, 0.2, 0.6)  # from where balance is all to where bytes are
GRAINS = ("coarse", "hybrid")
BASELINES = (LAYERWISE, INCREMENTAL, DATA_PARALLEL)
SEARCH_SHARE = 0.6  # of the time, for searches


def made_candidates(
    graph: Graph, costs: Profile, settings: Settings, cluster: Cluster
) -> Iterator[tuple[str, Placement]]:
    """Yield what needs no search, with the name of what made it."""
    speeds = [device.speed for device in cluster.devices[: settings.k]]
    for part in dict.fromkeys([int(np.argmax(speeds)), *(part for _, part in settings.pins.parts)]):
        yield "one device", _on_one(graph, costs, settings, part)
    loose = replace(settings, grain="hybrid", partitioner="auto", imbalance=any_imbalance(settings.k))
    bonds = settings.pins.bonds(graph, settings.k)
    for name, layout in staged_layouts(graph, costs, settings, cluster):
        if all(bond.holds_in(layout) for bond in bonds):
            yield f"stages {name}", settled(graph, costs, layout, loose)
    for name, grain, partitioner in BASELINES:
        yield from placements(graph, costs, replace(loose, grain=grain, partitioner=partitioner), name, Watch(), None)


def searched_candidates(
    graph: Graph, costs: Profile, settings: Settings, cluster: Cluster, watch: Watch
) -> Iterator[tuple[str, Placement]]:
    """Yield what searches find, with their names."""
    speeds = [device.speed for device in cluster.devices[: settings.k]]
    searches = [(grain, imbalance) for imbalance in IMBALANCES for grain in GRAINS]
    limit_s = SEARCH_SHARE * watch.time_limit_s / len(searches)
    each = replace(watch, time_limit_s=limit_s, on_left_out=lambda what: None)
    for grain, imbalance in searches:
        own = replace(settings, grain=grain, partitioner="auto", imbalance=imbalance)
        limit = Capacities.shared(speeds, imbalance)
        yield from placements(graph, costs, own, f"{grain} {imbalance:g}", each, limit)


def simple_plans(graph: Graph, costs: Profile, settings: Settings, watch: Watch) -> Iterator[Plan]:
    """Yield the plans of the baselines, which take no search."""
    for name, grain, partitioner in BASELINES:
        own = replace(settings, grain=grain, partitioner=partitioner, imbalance=any_imbalance(settings.k))
        with suppress(UsageError):  # a model of few filters has not so many parts
            yield from (made.plan for _, made in placements(graph, costs, own, name, watch, None))


def _on_one(graph: Graph, costs: Profile, settings: Settings, part: int) -> Placement:
    """Return everything but what is pinned elsewhere on one device: what no network makes slower."""
    told = {layer: bond.part for bond in settings.pins.bonds(graph, settings.k) for layer in bond.layers}
    part_of = {name: part if told.get(name) is None else told[name] for name in graph.index_of}
    planes = {
        layer.name: Plane.by_lines(np.full(layer.num_filters, part_of[layer.name], np.int64), settings.batch)
        for layer in graph.layers
    }
    loose = replace(settings, grain="coarse", partitioner="auto", imbalance=any_imbalance(settings.k))
    return placed(graph, costs, Layout(planes, settings.k, found_by="one device"), loose, Clock())


def any_imbalance(num_parts: int) -> float:
    """Return an imbalance that everything meets."""
    return float(max(1, num_parts - 1))


def placements(
    graph: Graph, costs: Profile, settings: Settings, name: str, watch: Watch, limit: Capacities | None
) -> Iterator[tuple[str, Placement]]:
    """Yield the placement that a search finds, if it finds one."""
    try:
        layout = search(graph, costs, settings, watch, capacities=limit)
    except (BalanceError, PartitionerError):
        return
    yield name, settled(graph, costs, layout, settings)


def settled(graph: Graph, costs: Profile, layout: Layout, settings: Settings) -> Placement:
    """Return the placement of a layout, whose plan says how unequal its parts are: nobody has asked for less."""
    made = placed(graph, costs, layout, replace(settings, imbalance=any_imbalance(settings.k)), Clock())
    imbalance = max(ceil(1e3 * (made.plan.metrics.max_over_avg - 1)) / 1e3, 0.0)
    return replace(made, plan=replace(made.plan, settings=replace(made.plan.settings, imbalance=imbalance)))
