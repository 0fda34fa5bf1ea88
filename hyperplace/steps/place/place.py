"""Turn a partition into a plan: owners and kernels here, and then all that follows from them."""

from dataclasses import replace

import numpy as np

from hyperplace.errors import HyperplaceError, UsageError
from hyperplace.steps.place.assignment import Assignment, assignments
from hyperplace.steps.place.exchange import exchange
from hyperplace.steps.place.layers import planned_layer
from hyperplace.values.arrays import Ints
from hyperplace.values.derived import derived
from hyperplace.values.derived.replicas import tied_replicas
from hyperplace.values.graph import Graph, Rule
from hyperplace.values.hypergraph import Hypergraph, Labels
from hyperplace.values.partition import Partition, volume_bytes
from hyperplace.values.plan import Metrics, Plan, PlannedWork, Settings
from hyperplace.values.profile import Profile


def place(graph: Graph, hypergraph: Hypergraph, partition: Partition, settings: Settings, *, profile: Profile) -> Plan:
    """Return the plan of a partition of the hypergraph that was built from the graph and the profile.

    The bytes of its messages are counted from the owners, not from the nets, and both must agree.
    """
    if len(partition.part_of) != hypergraph.num_vertices:
        raise UsageError(
            f"the partition has {len(partition.part_of)} vertices, the hypergraph {hypergraph.num_vertices}; "
            "partition this model's own hypergraph (see hyperplace export)"
        )
    if partition.num_parts != settings.k:
        raise UsageError(f"the partition has {partition.num_parts} parts, but k={settings.k}; give --k the same number")
    if hypergraph.labels is None:
        raise UsageError(
            "a hypergraph from a file does not say which filters its vertices are; build it from the model"
        )
    found = assignments(graph, hypergraph.labels, partition, settings.batch)
    exchange(graph, found)
    plan = derived(_draft(graph, hypergraph, partition, settings, found=found, profile=profile))
    crossing = volume_bytes(hypergraph, partition)
    if plan.metrics.judges_training:  # no search weighs the copies of parameters that layers share
        crossing += sum(replica.training_bytes for replica in tied_replicas(plan.layers))
    if crossing != plan.metrics.judged_bytes:
        raise HyperplaceError(
            f"the nets of the hypergraph cost {crossing} bytes, but the plan moves {plan.metrics.judged_bytes}; "
            "build the hypergraph from the model and the settings of the plan"
        )
    return plan


def _draft(
    graph: Graph,
    hypergraph: Hypergraph,
    partition: Partition,
    settings: Settings,
    *,
    found: dict[str, Assignment],
    profile: Profile,
) -> Plan:
    """Return a plan of owners and kernels alone."""
    assert hypergraph.labels is not None
    layers = [planned_layer(graph, layer, found[layer.name], settings.batch) for layer in graph.layers]
    work = _work(hypergraph.labels, hypergraph.weights, profile)
    return Plan(
        settings,
        tuple(
            replace(layer, work=cells, kernel_work=kernels)
            for layer, (cells, kernels) in zip(layers, work, strict=True)
        ),
        transfers=(),
        reductions=(),
        metrics=Metrics(
            hypergraph.work_unit,
            parts=(),
            volume_bytes=0,
            training_volume_bytes=0,
            data_parallel_bytes=0,
            feasible=True,
            found_by=partition.found_by,
            bound_bytes=partition.bound_bytes,
            is_cut_short=partition.is_cut_short,
        ),
        inputs=tuple(layer.shape[1:] for layer in graph.layers if layer.rule is Rule.INPUT),
        parameter_bytes=graph.parameter_bytes,
    )


def _work(labels: Labels, weights: Ints, profile: Profile) -> list[tuple[PlannedWork, PlannedWork]]:
    """Return the work of every layer's cells and of its kernels: the weights in all, their passes as in the profile."""
    is_kernel, size = labels.channel_start >= 0, len(labels.layers)
    cells = np.bincount(labels.layer_of, np.where(is_kernel, 0, weights), size)
    kernels = np.bincount(labels.layer_of, np.where(is_kernel, weights, 0), size)
    is_split = np.bincount(labels.layer_of, is_kernel, size) > 0
    found = []
    for number, cost in enumerate(profile[name] for name in labels.layers):
        own = PlannedWork.shared(int(cells[number]), cost.tail if is_split[number] else cost.filter)
        found.append((own, PlannedWork.shared(int(kernels[number]), cost.kernel)))
    return found
