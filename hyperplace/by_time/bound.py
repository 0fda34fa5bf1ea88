"""What no plan that splits filters or rows can beat: Graph + Profile + Settings + Cluster -> TimeBound.

A plan takes at least what its busiest part or card does, whatever the schedule; so the least that any placement can
make of those is a bound (steps/symmetric/time_program.py). What can be neither split nor moved in pieces takes its time
on the fastest device.
"""

from collections.abc import Sequence

import numpy as np

from hyperplace.by_time.timing import LEAST_ROWS, FlowWish
from hyperplace.steps.build import build_hybrid_runs
from hyperplace.steps.symmetric.time_program import ALL_WORK, Load, Room, TimeProgram
from hyperplace.values.bench import SYNC
from hyperplace.values.cluster import Cluster
from hyperplace.values.graph import Graph, Layer, Rule
from hyperplace.values.memory import OPTIMIZER_STATES
from hyperplace.values.plan import Settings
from hyperplace.values.profile import Profile
from hyperplace.values.time_bound import TimeBound

SECONDS = 5.0  # for the proof; what is proven by then holds
ROUNDINGS = 9  # of a part's work, for every layer: a program's segments have whole FLOPs, or tenths of microseconds
STEP = {"flops": 1.0, "us": 0.1}


def time_bound(
    graph: Graph,
    costs: Profile,
    settings: Settings,
    cluster: Cluster,
    flow: FlowWish | None = None,
    time_limit_s: float = SECONDS,
) -> TimeBound:
    """Return what no plan takes less than on the first k devices of a cluster, and why."""
    flow, devices = flow or FlowWish(), cluster.devices[: settings.k]
    rates = [1 / device.seconds(1.0, costs.unit) for device in devices]
    if not sum(costs[layer.name].filter_work for layer in graph.layers):
        return TimeBound(0.0, ALL_WORK)
    load = _load(graph, costs, settings, flow)
    program = TimeProgram(load, _rooms(cluster, rates), OPTIMIZER_STATES[flow.optimizer])
    found = max(program.solve(time_limit_s), _heaviest(graph, costs, max(rates)), key=lambda one: one.seconds)
    lost = len(rates) * ROUNDINGS * len(graph.layers) * STEP[costs.unit] / 2
    return TimeBound(max(found.seconds - lost / sum(rates), 0.0), found.binds)


def _load(graph: Graph, costs: Profile, settings: Settings, flow: FlowWish) -> Load:
    hybrid = build_hybrid_runs(graph, costs, fc=settings.fc)
    runs = hybrid.runs
    layers = [graph[name] for name in runs.layers]
    learns = np.array([layer.name in graph.learning for layer in layers])
    map_bytes = hybrid.whole_bytes / (1 + learns) * _travelling(settings.batch, flow)
    filters = [costs[layer.name].filter for layer in layers]
    weights = runs.sizes * np.array([_own_bytes(graph, layer) / layer.num_filters for layer in layers])
    return Load(
        hybrid,
        passes=runs.sizes * np.array([one.forward + one.backward for one in filters]),
        updates=runs.sizes * np.array([one.update for one in filters]),
        forward_bytes=map_bytes,
        back_bytes=map_bytes * learns,
        weight_bytes=weights,
    )


def _own_bytes(graph: Graph, layer: Layer) -> int:
    """Return the trained parameters that no other layer uses: others may be counted, and moved, with that layer."""
    return sum(one.num_bytes for one in layer.parameters if one.trained and one.name not in graph.tied_parameters)


def _travelling(batch: int, flow: FlowWish) -> float:
    """Return how much of a mini-batch travels if it is cut into micro-batches of whole rows, as simulated."""
    most = max(1, batch // LEAST_ROWS) if flow.schedule == SYNC else 1
    return min(number * max(1, round(batch / number)) / batch for number in range(1, most + 1))


def _rooms(cluster: Cluster, rates: Sequence[float]) -> list[Room]:
    """Return the hosts of the first devices, whose rates of work are given."""
    found = []
    for number, host in enumerate(cluster.hosts):
        own = [part for part in range(len(rates)) if cluster.home[part] == number]
        limits = [cluster.devices[part].memory_bytes for part in own]
        memory = float("inf") if None in limits else float(sum(limit or 0 for limit in limits))
        if own:
            found.append(Room(host.name, sum(rates[part] for part in own), host.out_rate, host.in_rate, memory))
    return found


def _heaviest(graph: Graph, costs: Profile, rate: float) -> TimeBound:
    """Return what the heaviest piece that cannot be split takes on the fastest device."""
    found = [(_piece(graph, layer) * _passes(costs, layer) / rate, layer.name) for layer in graph.layers]
    seconds, name = max(found)
    return TimeBound(seconds, f"layer {name}, which is never split")


def _passes(costs: Profile, layer: Layer) -> float:
    one = costs[layer.name].filter
    return (one.forward + one.backward) * layer.num_filters


def _piece(graph: Graph, layer: Layer) -> float:
    """Return the smallest share of a layer that a device may have."""
    if layer.rule is Rule.WHOLE:
        return 1.0
    return 1.0 / layer.num_filters if not graph.splits_rows(layer) else 0.0
