"""Refuse plans that a program must not be written from: of another model, or not what follows from its own owners."""

from collections.abc import Iterator
from dataclasses import fields

from hyperplace.errors import UsageError
from hyperplace.values.derived import differences
from hyperplace.values.facts import Facts, facts_of
from hyperplace.values.faults import first_of
from hyperplace.values.graph import Graph, Rule
from hyperplace.values.plan import Plan, PlannedLayer


def check(graph: Graph, plan: Plan) -> None:
    """Refuse a plan of another model, and one that does not follow from its owners."""
    remedy = "give the model the plan was made for, or make the plan again"
    if faults := list(_model_faults(graph, plan)):
        raise UsageError(f"{first_of(faults)}; {remedy}")
    if faults := differences(plan):
        raise UsageError(f"the plan is not what follows from its owners: {first_of(faults)}; make the plan again")


def _model_faults(graph: Graph, plan: Plan) -> Iterator[str]:
    """Say what the plan takes for granted and the model does not say."""
    if len(graph.layers) != len(plan.layers):
        yield f"the plan has {len(plan.layers)} layers, the model {len(graph.layers)}"
        return
    for layer, planned in zip(graph.layers, plan.layers, strict=True):
        model = (layer.name, layer.kind, str(layer.rule), layer.num_filters)
        if model != (planned.name, planned.kind, planned.rule, planned.num_filters):
            yield (
                f"the plan's layer {planned.name!r} ({planned.kind}, {planned.rule}, {planned.num_filters} filters) is "
                f"{layer.name!r} ({layer.kind}, {layer.rule}, {layer.num_filters} filters) in the model"
            )
            return
        yield from _fact_faults(planned, facts_of(graph, layer))
    inputs = tuple(layer.shape[1:] for layer in graph.layers if layer.rule is Rule.INPUT)
    if inputs != plan.inputs:
        yield f"the plan is for inputs of {_shapes(plan.inputs)}, the model has {_shapes(inputs)}"
    if graph.parameter_bytes != plan.parameter_bytes:
        yield f"the plan has parameter_bytes {plan.parameter_bytes}, the model {graph.parameter_bytes}"


def _fact_faults(planned: PlannedLayer, facts: Facts) -> Iterator[str]:
    for field in fields(Facts):
        found, right = getattr(planned.facts, field.name), getattr(facts, field.name)
        if found != right:
            yield f"the plan's layer {planned.name!r} has {field.name} {found}, the model {right}"


def _shapes(shapes: tuple[tuple[int, ...], ...]) -> str:
    return ", ".join("x".join(map(str, shape)) or "one number" for shape in shapes)
