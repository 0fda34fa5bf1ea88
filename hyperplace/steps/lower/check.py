"""Refuse plans that a program must not be written from: of another model, or not what follows from their owners."""

from collections.abc import Iterator
from dataclasses import fields, replace
from typing import Any

from hyperplace.errors import UsageError
from hyperplace.values.derived import differences
from hyperplace.values.facts import Facts, facts_of
from hyperplace.values.faults import first_of
from hyperplace.values.graph import Graph, Layer, Rule
from hyperplace.values.plan import Plan, PlannedLayer

PRECISE = ("map_bytes", "fixed_bytes", "partial_bytes", "statistics_bytes")  # a plan made within autocast counts fewer
ESTIMATES = ("saved_bytes",)  # of memory; what is kept depends on the precision in more ways than a factor
REMEDY = "give the model the plan was made for, or make the plan again"


def check(graph: Graph, plan: Plan) -> None:
    """Refuse a plan of another model, and one that does not follow from its owners."""
    _check_layers(graph, plan)
    if faults := model_faults(graph, plan):
        raise UsageError(f"{first_of(faults)}; {REMEDY}")
    if faults := differences(plan):
        raise UsageError(f"the plan is not what follows from its owners: {first_of(faults)}; make the plan again")


def with_facts_of(graph: Graph, plan: Plan) -> Plan:
    """Return the plan with all that the model says about its layers and inputs."""
    _check_layers(graph, plan)
    pairs = zip(graph.layers, plan.layers, strict=True)
    return replace(
        plan,
        layers=tuple(_with_facts(graph, layer, planned) for layer, planned in pairs),
        inputs=_inputs(graph),
        parameter_bytes=graph.parameter_bytes,
    )


def _with_facts(graph: Graph, layer: Layer, planned: PlannedLayer) -> PlannedLayer:
    facts = facts_of(graph, layer)
    wrong = {name: getattr(facts, name) for name in _wrong_facts(planned.facts, facts)}
    return replace(planned, facts=replace(planned.facts, **wrong))


def model_faults(graph: Graph, plan: Plan) -> list[str]:
    """Say what the plan takes for granted and the model does not say."""
    pairs = zip(graph.layers, plan.layers, strict=True)
    faults = [fault for layer, planned in pairs for fault in _fact_faults(graph, layer, planned)]
    if (inputs := _inputs(graph)) != plan.inputs:
        faults.append(f"the plan is for inputs of {_shapes(plan.inputs)}, the model has {_shapes(inputs)}")
    if graph.parameter_bytes != plan.parameter_bytes:
        faults.append(f"the plan has parameter_bytes {plan.parameter_bytes}, the model {graph.parameter_bytes}")
    return faults


def _check_layers(graph: Graph, plan: Plan) -> None:
    if len(graph.layers) != len(plan.layers):
        raise UsageError(f"the plan has {len(plan.layers)} layers, the model {len(graph.layers)}; {REMEDY}")
    for layer, planned in zip(graph.layers, plan.layers, strict=True):
        model = (layer.name, layer.kind, str(layer.rule), layer.num_filters)
        if model != (planned.name, planned.kind, planned.rule, planned.num_filters):
            raise UsageError(
                f"the plan's layer {planned.name!r} ({planned.kind}, {planned.rule}, {planned.num_filters} filters) is "
                f"{layer.name!r} ({layer.kind}, {layer.rule}, {layer.num_filters} filters) in the model; {REMEDY}"
            )


def _inputs(graph: Graph) -> tuple[tuple[int, ...], ...]:
    return tuple(layer.shape[1:] for layer in graph.layers if layer.rule is Rule.INPUT)


def _fact_faults(graph: Graph, layer: Layer, planned: PlannedLayer) -> Iterator[str]:
    facts = facts_of(graph, layer)
    for name in _wrong_facts(planned.facts, facts):
        found, right = getattr(planned.facts, name), getattr(facts, name)
        yield f"the plan's layer {planned.name!r} has {name} {found}, the model {right}"


def _wrong_facts(found: Facts, right: Facts) -> list[str]:
    """Return the names of the facts that are not the model's, in whatever precision either was captured."""
    return [name for name, (one, other) in _unlike(found, right).items() if not _may_be_precision(name, one, other)]


def _unlike(found: Facts, right: Facts) -> dict[str, tuple[Any, Any]]:
    """Return the facts that differ, but for estimates."""
    names = [field.name for field in fields(Facts) if field.name not in ESTIMATES]
    pairs = {name: (getattr(found, name), getattr(right, name)) for name in names}
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


def imprecise(graph: Graph, plan: Plan) -> list[str]:
    """Say which bytes of the plan are not the model's but could be in another precision, that of torch.autocast."""
    if len(graph.layers) != len(plan.layers):
        return []
    return [
        f"the plan's layer {planned.name!r} has {name} {one}, the model {other}"
        for layer, planned in zip(graph.layers, plan.layers, strict=True)
        for name, (one, other) in _unlike(planned.facts, facts_of(graph, layer)).items()
        if _may_be_precision(name, one, other)
    ]


def _may_be_precision(name: str, one: Any, other: Any) -> bool:
    return name in PRECISE and _is_of_other_precision(one, other)


def _is_of_other_precision(one: int, other: int) -> bool:
    return any(low and low * factor == high for factor in (2, 4, 8) for low, high in ((one, other), (other, one)))


def _shapes(shapes: tuple[tuple[int, ...], ...]) -> str:
    return ", ".join("x".join(map(str, shape)) or "one number" for shape in shapes)
