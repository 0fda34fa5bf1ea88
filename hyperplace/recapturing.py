"""From a plan back to the graph of its model: captured again, and held against what the plan says of it."""

from contextlib import AbstractContextManager
from math import prod
from typing import TYPE_CHECKING, Any

from hyperplace.errors import UsageError
from hyperplace.planning import graph_for
from hyperplace.steps.lower.check import REMEDY, imprecise
from hyperplace.values.faults import first_of
from hyperplace.values.graph import Graph
from hyperplace.values.plan import Plan

if TYPE_CHECKING:
    from torch import nn

MOST_ELEMENTS = 2**31  # of the sample that a plan's model is captured with


def planned_graph(model: "nn.Module", plan: Plan, sample: Any = None, *, tries_uses: bool = False) -> Graph:
    """Return the model captured with inputs of the planned shapes, as the plan's settings want it.

    A plan made within torch.autocast counts fewer bytes than the model has outside of it, and the other way round:
    where only that can be why they differ, the model is captured the other way too, to see whether it is.
    """
    example = _sample(model, plan, sample)
    graph = graph_for(plan.settings, model, example, tries_uses=tries_uses)
    kind = next((parameter.device.type for parameter in model.parameters()), "cpu")
    # On the meta device nothing is cast, and a plan for a model of other parameters is refused as such.
    if kind != "meta" and graph.parameter_bytes == plan.parameter_bytes and (faults := imprecise(graph, plan)):
        with _other_precision(kind):
            other = graph_for(plan.settings, model, example)
        if imprecise(other, plan):
            raise UsageError(f"{first_of(faults)}, and torch.autocast is not why; {REMEDY}")
    return graph


def _other_precision(device: str) -> AbstractContextManager[Any]:
    """Return the autocast that the caller is not in: the usual one, or none."""
    import torch

    return torch.autocast(device, dtype=torch.bfloat16, enabled=not torch.is_autocast_enabled(device))


def _sample(model: "nn.Module", plan: Plan, sample: Any) -> Any:
    """Return inputs of the planned shapes, in the model's own precision: nothing is computed with them."""
    import torch

    if sample is not None:
        return sample
    elements = sum(plan.settings.batch * prod(shape) for shape in plan.inputs)
    if elements > MOST_ELEMENTS:
        raise UsageError(
            f"a mini-batch of the plan has {elements} numbers, more than {MOST_ELEMENTS}; plan for fewer rows"
        )
    dtype = next((p.dtype for p in model.parameters() if p.is_floating_point()), torch.float32)
    device = next((p.device for p in model.parameters()), torch.device("cpu"))
    return tuple(torch.empty(plan.settings.batch, *shape, dtype=dtype, device=device) for shape in plan.inputs)
