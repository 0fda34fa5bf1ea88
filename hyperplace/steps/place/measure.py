"""What a placement costs each part, and all parts together."""

import numpy as np

from hyperplace.steps.place.assignment import Assignment
from hyperplace.values.arrays import Floats, Ints
from hyperplace.values.graph import Graph, Layer, Ref
from hyperplace.values.hypergraph import Hypergraph
from hyperplace.values.partition import Partition, connectivity, is_feasible, work_per_part
from hyperplace.values.plan import Metrics, PartMetrics, Reduction, Settings, Transfer

Messages = tuple[Transfer | Reduction, ...]


def metrics(
    graph: Graph,
    hypergraph: Hypergraph,
    partition: Partition,
    found: dict[str, Assignment],
    messages: Messages,
    settings: Settings,
) -> Metrics:
    """Return the metrics; volumes come from the hypergraph's nets, so the messages are an independent count."""
    assert hypergraph.labels is not None
    extra = connectivity(hypergraph, partition) - 1
    volumes = extra * hypergraph.costs
    learns = np.array([layer.name in graph.learning for layer in graph.layers])[hypergraph.labels.net_layer]
    if is_hybrid := settings.grain == "hybrid":  # whose nets cost what they cost in training
        forward = np.where(hypergraph.labels.net_is_weights, 0, np.where(learns, volumes // 2, volumes))
        training = int(volumes.sum())
    else:
        forward, training = volumes, int(volumes.sum() + volumes[learns].sum())
    work = work_per_part(hypergraph, partition)
    return Metrics(
        work_unit=hypergraph.work_unit,
        parts=_parts(graph, found, messages, work, settings),
        volume_bytes=int(forward.sum()),
        training_volume_bytes=training,
        num_cut_nets=int((extra > 0).sum()),
        cut_net_bytes=int(hypergraph.costs[extra > 0].sum()),
        data_parallel_bytes=2 * (settings.k - 1) * graph.parameter_bytes,
        feasible=is_feasible(work, settings.imbalance),
        found_by=partition.found_by,
        bound_bytes=partition.bound_bytes,
        is_cut_short=partition.is_cut_short,
        judges_training=is_hybrid,
    )


def _parts(
    graph: Graph, found: dict[str, Assignment], messages: Messages, work: Ints, settings: Settings
) -> tuple[PartMetrics, ...]:
    parameters, saved = np.zeros(settings.k), np.zeros(settings.k, np.int64)
    for layer in graph.layers:
        cells, held_filters = _holdings(found[layer.name], settings.k)
        saved += cells * layer.saved_bytes
        parameters += _parameter_bytes(layer, found[layer.name], held_filters)
    sent, received = np.zeros(settings.k, np.int64), np.zeros(settings.k, np.int64)
    num_sent, num_received = np.zeros(settings.k, np.int64), np.zeros(settings.k, np.int64)
    for message in messages:
        sent[message.source] += message.num_bytes
        received[message.target] += message.num_bytes
        num_sent[message.source] += 1
        num_received[message.target] += 1
    activations = saved + received
    held = np.rint(parameters).astype(np.int64)
    memory = 2 * held + activations
    rows = zip(work, held, activations, memory, sent, received, num_sent, num_received, strict=True)
    return tuple(PartMetrics(*(int(x) for x in row)) for row in rows)


def _holdings(assignment: Assignment, num_parts: int) -> tuple[Ints, Ints]:
    """Return the cells that every part owns, and the filters of which it owns any."""
    cells, filters = np.zeros(num_parts, np.int64), np.zeros(num_parts, np.int64)
    counts = np.bincount(assignment.pattern_of, minlength=len(assignment.patterns))
    for pattern, count in zip(assignment.patterns, counts.tolist(), strict=True):
        np.add.at(cells, pattern, assignment.num_rows * count)
        filters[np.unique(pattern)] += count
    return cells, filters


def _parameter_bytes(layer: Layer, assignment: Assignment, owned: Ints) -> Floats:
    """Return each part's share of the layer's parameters: by filters, and of a split kernel by its area."""
    shares: Floats = owned / layer.num_filters
    if assignment.grid is None:
        return shares * layer.parameter_bytes
    kernel = layer.calls[layer.num_anchor_calls - 1].args[1]
    kernel_bytes = sum(p.num_bytes for p in layer.parameters if isinstance(kernel, Ref) and p.name == kernel.name)
    rows = np.bincount(assignment.row_of, minlength=assignment.grid.shape[0])
    columns = np.bincount(assignment.column_of, minlength=assignment.grid.shape[1])
    area = np.zeros(len(owned))
    read = assignment.grid >= 0
    np.add.at(area, assignment.grid[read], np.outer(rows, columns)[read])
    by_area: Floats = area * (kernel_bytes / area.sum())
    return by_area + shares * (layer.parameter_bytes - kernel_bytes)
