"""Recompute all of a plan that follows from the rest of it."""

from dataclasses import replace

from hyperplace.errors import HyperplaceError
from hyperplace.values.derived.messages import reductions, transfers
from hyperplace.values.derived.metrics import metrics
from hyperplace.values.derived.replicas import replicas, tied_replicas
from hyperplace.values.derived.shards import arranged
from hyperplace.values.derived.sound import fact_faults, kernel_faults, owner_faults
from hyperplace.values.faults import first_of
from hyperplace.values.plan import Plan


def derived(plan: Plan) -> Plan:
    """Return the plan as it must be: owners and shards in their one form, then messages, replicas and metrics.

    Facts that contradict each other, and kernels that are computed never or twice, leave nothing to derive: an error.
    """
    _refuse(fact_faults(plan) or kernel_faults(plan))
    layers = tuple(arranged(layer, plan.settings) for layer in plan.layers)
    _refuse(owner_faults(layers, plan.settings.batch))
    found = replace(
        plan,
        layers=layers,
        transfers=transfers(layers, plan.settings),
        reductions=reductions(layers, plan.settings),
        replicas=(*(replica for layer in layers for replica in replicas(layer)), *tied_replicas(layers)),
    )
    return replace(found, metrics=metrics(found))


def _refuse(faults: list[str]) -> None:
    if faults:
        raise HyperplaceError("not a plan: " + first_of(faults))
