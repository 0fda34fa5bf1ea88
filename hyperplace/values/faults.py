"""What can be wrong with a plan: every check of its layers, messages, replicas and totals, each counted afresh."""

from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from hyperplace.values.plan import Plan, PlannedLayer, Range, Ranges, Replica


def plan_faults(plan: "Plan") -> list[str]:
    """Return what is wrong, in the user's words; an empty list for a plan that may exist."""
    faults = [*_layer_faults(plan), *_message_faults(plan), *_metric_faults(plan)]
    return faults or list(_replica_faults(plan))  # which are told from sound owners only


def _layer_faults(plan: "Plan") -> Iterator[str]:
    for layer in plan.layers:
        if layer.num_filters < 1:
            yield f"{layer.name} has {layer.num_filters} filters"
            continue
        for owner in layer.owners:
            yield from _part_faults(layer.name, owner.part, plan)
            yield from _range_faults(layer.name, "filters", owner.filters, layer.num_filters)
            yield from _row_faults(layer.name, owner.rows, plan)
        yield from _owner_faults(layer, plan.settings.batch)
        for shard in layer.shards:
            yield from _part_faults(layer.name, shard.part, plan)
            yield from _range_faults(layer.name, "filters", shard.filters, layer.num_filters)
            yield from _range_faults(layer.name, "channels", shard.channels, layer.num_channels)
            yield from _row_faults(layer.name, shard.rows, plan)


def _owner_faults(layer: "PlannedLayer", batch: int) -> Iterator[str]:
    """Say where a filter's row has no owner or several; only the first row between two edges is looked at."""
    for row in sorted({0, *(edge for edge in layer.row_edges if 0 <= edge < batch)}):
        count = np.zeros(layer.num_filters, np.int64)
        for owner in layer.owners:
            if owner.rows[0] <= row < owner.rows[1]:
                for start, stop in owner.filters:
                    count[max(start, 0) : max(stop, 0)] += 1
        if np.any(count != 1):
            wrong = int(np.argmax(count != 1))
            where = f"filter {wrong} of {layer.name}" + (f", row {row}," if len(layer.row_edges) > 2 else "")
            yield f"{where} has {count[wrong]} owners instead of 1"
            return


def _message_faults(plan: "Plan") -> Iterator[str]:
    sizes = {layer.name: layer.num_filters for layer in plan.layers}
    for message in plan.messages:
        where = f"a message of {message.layer}"
        if message.layer not in sizes:
            yield f"{where}: there is no such layer"
            continue
        yield from _part_faults(where, message.source, plan)
        yield from _part_faults(where, message.target, plan)
        yield from _range_faults(where, "filters", message.filters, sizes[message.layer])
        yield from _row_faults(where, message.rows, plan)
        if message.source == message.target or message.num_bytes < 0:
            yield f"{where} goes from part {message.source} to {message.target}: {message.num_bytes} bytes"


def _replica_faults(plan: "Plan") -> Iterator[str]:
    layers = {layer.name: layer for layer in plan.layers}
    replicas_of: dict[str, list[Replica]] = {}
    for replica in plan.replicas:
        where = f"a replica of {replica.layer}"
        if replica.layer not in layers:
            yield f"{where}: there is no such layer"
            continue
        replicas = replicas_of.setdefault(replica.layer, [])
        if faults := list(_range_faults(where, "filters", replica.filters, layers[replica.layer].num_filters)):
            yield from faults
            continue
        replicas.append(replica)
        if min(replica.parameter_bytes, replica.statistics_bytes) < 0:
            yield f"{where} has {replica.parameter_bytes} bytes of parameters, {replica.statistics_bytes} of statistics"
    for name, replicas in replicas_of.items():
        yield from _copy_faults(layers[name], replicas)
        yield from _size_faults(name, replicas)


def _copy_faults(layer: "PlannedLayer", replicas: "list[Replica]") -> Iterator[str]:
    """Compare the replicas with all that there must be: every part that computes rows of a filter, but its owner."""
    rows = np.array([layer.owner_of_row(start) for start in layer.row_edges[:-1]])
    lengths = np.diff(layer.row_edges)
    expected = set()
    for number in range(layer.num_filters):
        counts = np.bincount(rows[:, number], lengths)
        owner = int(np.argmax(counts))
        expected |= {(number, part, owner) for part in np.flatnonzero(counts).tolist() if part != owner}
    found = [(f, r.part, r.owner) for r in replicas for start, stop in r.filters for f in range(start, stop)]
    if wrong := sorted(expected.symmetric_difference(found)):
        number, part, owner = wrong[0]
        what = "lacks its" if wrong[0] in expected else "must not have a"
        yield f"filter {number} of {layer.name} {what} replica on part {part} with owner {owner}"
    elif len(found) > len(expected):
        yield f"a filter of {layer.name} has the same replica twice"


def _size_faults(name: str, replicas: "list[Replica]") -> Iterator[str]:
    """Say where filters of one layer have parameters of different sizes."""
    for one, other in pairwise(replicas):
        sizes = [sum(stop - start for start, stop in replica.filters) for replica in (one, other)]
        for what in ("parameter_bytes", "statistics_bytes"):
            if getattr(one, what) * sizes[1] != getattr(other, what) * sizes[0]:
                yield f"replicas of {name} differ in {what} per filter"


def _metric_faults(plan: "Plan") -> Iterator[str]:
    metrics = plan.metrics
    moved = sum(message.num_bytes for message in plan.messages)
    if moved != metrics.volume_bytes:
        yield f"its messages move {moved} bytes, but volume_bytes is {metrics.volume_bytes}"
    both_ways = moved + sum(message.num_bytes for message in plan.messages if message.learns)
    total = both_ways + sum(replica.training_bytes for replica in plan.replicas)
    if total != metrics.training_volume_bytes:
        what = "messages, their gradients and replicas" if plan.replicas else "messages and their gradients"
        yield f"its {what} move {total} bytes, but training_volume_bytes is {metrics.training_volume_bytes}"
    if len(metrics.parts) != plan.settings.k:
        yield f"it has metrics of {len(metrics.parts)} parts, but k={plan.settings.k}"
    if plan.settings.grain == "auto":
        yield "its grain is auto, but a plan is of one grain"
    if metrics.judges_training != (plan.settings.grain == "hybrid"):
        yield f"judges_training is {metrics.judges_training}, but the grain is {plan.settings.grain}"


def _part_faults(where: str, part: int, plan: "Plan") -> Iterator[str]:
    if not 0 <= part < plan.settings.k:
        yield f"{where} names part {part}, outside 0..{plan.settings.k - 1}"


def _range_faults(where: str, what: str, ranges: "Ranges", size: int) -> Iterator[str]:
    for start, stop in ranges:
        if not 0 <= start < stop <= size:
            yield f"{where} has {what} {start}:{stop}, outside 0:{size}"


def _row_faults(where: str, rows: "Range", plan: "Plan") -> Iterator[str]:
    """Check a range of rows; only the hybrid grain splits them."""
    yield from _range_faults(where, "rows", (rows,), plan.settings.batch)
    if (
        plan.settings.grain != "hybrid"
        and rows != (0, plan.settings.batch)
        and 0 <= rows[0] < rows[1] <= plan.settings.batch
    ):
        yield f"{where} has rows {rows[0]}:{rows[1]}, but only the hybrid grain splits rows"
