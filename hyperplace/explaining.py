"""Why a layer of a plan is where it is: Plan + a layer's name -> Explanation.

Every other place is a plan of its own: the layer moved, with all that are tied to it, and whatever follows from that
counted again. With a cluster each is also simulated, run as is best for it.
"""

from collections.abc import Callable
from dataclasses import replace

from hyperplace.by_time.timing import FlowWish, forecast
from hyperplace.errors import UsageError
from hyperplace.values.channels import Reads
from hyperplace.values.cluster import Cluster
from hyperplace.values.derived import derived
from hyperplace.values.derived.shards import has_kernels
from hyperplace.values.explanation import Explanation, Place
from hyperplace.values.forecast import Forecast
from hyperplace.values.graph import Graph
from hyperplace.values.pins import Pins, closest
from hyperplace.values.plan import Owner, Plan, PlannedLayer, Shard
from hyperplace.values.profile import Profile
from hyperplace.values.ties import grouped

Judge = Callable[[Plan], Forecast]


def explain(plan: Plan, name: str, judge: Judge | None = None) -> Explanation:
    """Return why a layer is where it is; `judge` says what a plan takes on a cluster (see judge_on)."""
    layers = {layer.name: layer for layer in plan.layers}
    if name not in layers:
        raise UsageError(f"the plan has no layer {name!r}; did you mean {closest(name, list(layers))!r}?")
    layer, tied = layers[name], _tied(plan, name)
    sources = {run.layer for reading in layer.facts.readings for run in reading.runs}
    free = replace(plan, settings=replace(plan.settings, pins=Pins()))
    others = [
        _judged(f"all on part {part}", _moved(free, tied, part), plan.settings.pins, judge)
        for part in range(plan.settings.k)
        if any(layers[one].parts != {part} for one in tied)
    ]
    return Explanation(
        plan,
        layer,
        tuple(one for one in tied if one != name),
        sum(one.num_bytes for one in plan.transfers if one.layer in sources and one.target in layer.parts),
        sum(one.num_bytes for one in plan.transfers if one.layer == name),
        sum(one.num_bytes for one in plan.reductions if one.layer == name),
        sum(one.training_bytes for one in plan.replicas if one.layer == name),
        tuple((part, _others_on(plan, part, name)) for part in sorted(layer.parts)),
        _judged("as it is", free, plan.settings.pins, judge),
        tuple(sorted(others, key=lambda place: place.cost)),
    )


def judge_on(graph: Graph, costs: Profile, cluster: Cluster, flow: FlowWish) -> Judge:
    """Return what says what a plan takes on a cluster."""
    return lambda plan: forecast(graph, costs, plan, cluster, flow)


def _tied(plan: Plan, name: str) -> tuple[str, ...]:
    """Return the layer and those that share all its channels, as values/ties.py says of a graph."""
    size_of = {layer.name: layer.num_filters for layer in plan.layers}
    pairs = [
        (run.layer, layer.name)
        for layer in plan.layers
        for reading in layer.facts.readings
        for run in reading.runs
        if reading.reads == Reads.SAME and len(reading.runs) == 1 and run.stop - run.start == size_of[run.layer]
    ]
    group_of = grouped(size_of, pairs)
    return tuple(one for one in size_of if group_of[one] == group_of[name])


def _others_on(plan: Plan, part: int, name: str) -> tuple[str, ...]:
    return tuple(layer.name for layer in plan.layers if part in layer.parts and layer.name != name)


def _judged(name: str, plan: Plan, pins: Pins, judge: Judge | None) -> Place:
    broken = tuple(pins.broken({layer.name: layer.parts for layer in plan.layers}))
    if judge is None:
        over = f"max/avg {plan.metrics.max_over_avg:.3f} is over the limit of {1 + plan.settings.imbalance:g}"
        return Place(name, plan, (*(() if plan.metrics.feasible else (over,)), *broken))
    found = judge(plan)
    return Place(name, plan, (*([found.lacks] if found.lacks else []), *broken), found.seconds, found.binds)


def _moved(plan: Plan, names: tuple[str, ...], part: int) -> Plan:
    """Return the plan with all of some layers on one part."""
    layers = [_on_part(plan, layer, part) if layer.name in names else layer for layer in plan.layers]
    return derived(replace(plan, layers=tuple(layers)))


def _on_part(plan: Plan, layer: PlannedLayer, part: int) -> PlannedLayer:
    rows, num_groups = (0, plan.settings.batch), layer.facts.groups
    owner = Owner(part, ((0, layer.num_filters),), rows)
    if not has_kernels(layer, plan.settings):
        return replace(layer, owners=(owner,), shards=())
    if layer.facts.readings[0].reads != Reads.GROUP:
        num_groups = 1
    filters, channels = layer.num_filters // num_groups, layer.num_channels // num_groups
    shards = (
        Shard(part, ((g * filters, (g + 1) * filters),), ((g * channels, (g + 1) * channels),), rows)
        for g in range(num_groups)
    )
    return replace(layer, owners=(owner,), shards=tuple(shards))
