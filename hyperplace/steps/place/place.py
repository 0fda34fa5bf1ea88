"""Turn a layout into a plan: owners, kernels and their work here, and then all that follows from them."""

from dataclasses import dataclass, replace

import numpy as np

from hyperplace.errors import HyperplaceError, UsageError
from hyperplace.steps.place.exchange import exchange
from hyperplace.steps.place.layers import Assignment, assignments, planned_layer
from hyperplace.steps.place.servers import SERVERS
from hyperplace.values.arrays import Floats
from hyperplace.values.derived import derived
from hyperplace.values.derived.replicas import replicas, tied_replicas
from hyperplace.values.graph import Graph, Rule
from hyperplace.values.layout import NOBODY, Layout, Plane
from hyperplace.values.plan import Metrics, Plan, PlannedWork, Settings
from hyperplace.values.profile import Profile, Work

TICKS = 2**30  # measured work is rounded to a tick of which a model has about so many: no layer notices


def place(graph: Graph, profile: Profile, layout: Layout, settings: Settings) -> Plan:
    """Return the plan of a layout of the graph."""
    if faults := _faults(graph, layout, settings):
        raise UsageError("; ".join(faults))
    found = assignments(layout)
    exchange(graph, found)
    draft = _draft(graph, profile, layout, found, settings)
    if settings.partitioner in SERVERS:
        chosen = tuple(replicas(draft.layers, share=SERVERS[settings.partitioner]))
        draft = replace(draft, replicas=chosen)
    return derived(draft)


def _faults(graph: Graph, layout: Layout, settings: Settings) -> list[str]:
    """Return in what the layout is not of the graph and the settings."""
    faults = []
    theirs = {layer: int(plane.lines[-1]) for layer, plane in layout.owners.items()}
    if odd := sorted({(layer.name, layer.num_filters) for layer in graph.layers} ^ set(theirs.items())):
        faults.append(f"the layout is of another model: only one of them has {odd[0][1]} filters of {odd[0][0]}")
    if layout.num_parts != settings.k:
        faults.append(f"the layout has {layout.num_parts} parts, but k={settings.k}; give --k the same number")
    if theirs and layout.batch != settings.batch:
        faults.append(f"the layout has {layout.batch} rows, but the batch is {settings.batch}")
    return faults


def check_volume(plan: Plan, crossing_bytes: int) -> None:
    """Refuse a plan whose messages, counted from the owners, are not what crosses in the nets of its hypergraph."""
    if plan.metrics.judges_training:  # no search weighs the copies of parameters that layers share
        crossing_bytes += sum(replica.training_bytes for replica in tied_replicas(plan.layers))
    if crossing_bytes != plan.metrics.judged_bytes:
        raise HyperplaceError(
            f"the nets of the hypergraph cost {crossing_bytes} bytes, but the plan moves {plan.metrics.judged_bytes}; "
            "build the hypergraph from the model and the settings of the plan"
        )


def _draft(graph: Graph, profile: Profile, layout: Layout, found: dict[str, Assignment], settings: Settings) -> Plan:
    """Return a plan of owners and kernels alone."""
    work, work_unit = whole_work(graph, profile, layout)
    layers = [planned_layer(graph, layer, found[layer.name], settings.batch) for layer in graph.layers]
    return Plan(
        settings,
        tuple(replace(layer, work=work[layer.name].cells, kernel_work=work[layer.name].kernels) for layer in layers),
        transfers=(),
        reductions=(),
        metrics=Metrics(
            work_unit,
            parts=(),
            volume_bytes=0,
            training_volume_bytes=0,
            data_parallel_bytes=0,
            feasible=True,
            found_by=layout.found_by,
            bound_bytes=layout.bound_bytes,
            is_cut_short=layout.is_cut_short,
        ),
        inputs=tuple(layer.shape[1:] for layer in graph.layers if layer.rule is Rule.INPUT),
        parameter_bytes=graph.parameter_bytes,
    )


@dataclass(frozen=True)
class LayerWork:
    """The work of all cells of a layer, and of all its kernels where it is split into some."""

    cells: PlannedWork
    kernels: PlannedWork


def whole_work(graph: Graph, profile: Profile, layout: Layout) -> tuple[dict[str, LayerWork], str]:
    """Return the work of every layer, and what one unit of it is.

    Counted work is divided by what all cells and kernels have in common, so that no share of it is rounded.
    """
    amounts, pieces = {}, []
    for layer in graph.layers:
        cost, kernels = profile[layer.name], layout.kernels.get(layer.name)
        cell = (cost.filter if kernels is None else cost.tail) / layout.batch
        kernel = Work() if kernels is None else cost.kernel
        pieces += [cell.total, kernel.total]
        amounts[layer.name] = cell * (layer.num_filters * layout.batch), kernel * _num_kernels(kernels)
    unit = _unit(np.array(pieces), sum(work.total for pair in amounts.values() for work in pair))
    whole = {name: LayerWork(*(_whole(work, unit) for work in pair)) for name, pair in amounts.items()}
    return whole, f"{unit:g} {profile.unit}" if unit < 1 else f"{int(unit)} {profile.unit}"


def _num_kernels(kernels: Plane | None) -> int:
    if kernels is None:
        return 0
    sizes = np.outer(np.diff(kernels.lines), np.diff(kernels.columns))
    return int(sizes[kernels.parts != NOBODY].sum())


def _unit(pieces: Floats, total: float) -> float:
    if np.all(pieces == np.rint(pieces)) and pieces.max() < 2**62:
        return float(np.gcd.reduce(pieces.astype(np.int64)) or 1)
    return float(10.0 ** np.ceil(np.log10(total / TICKS)))


def _whole(work: Work, unit: float) -> PlannedWork:
    return PlannedWork.shared(round(work.total / unit), work)
