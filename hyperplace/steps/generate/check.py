"""Refuse plans that a program must not be written from: of another model, or edited until kernels are lost.

A Plan checks what it knows by itself; which channels a filter reads only the graph knows.
"""

from collections.abc import Iterable, Iterator
from itertools import pairwise

import numpy as np

from hyperplace.errors import UsageError
from hyperplace.steps.generate.lowering import channels_read
from hyperplace.values.arrays import Ints
from hyperplace.values.graph import Graph, Layer
from hyperplace.values.plan import Plan, PlannedLayer, Ranges, Shard
from hyperplace.values.ranges import common

Sent = dict[tuple[str, int], list[Ranges]]  # the filters of partial sums, by layer and the part they come from


def check(graph: Graph, plan: Plan) -> None:
    """Refuse a plan of another model, and one whose owners and shards do not make up its layers."""
    _check_model(graph, plan)
    sent: Sent = {}
    for reduction in plan.reductions:
        sent.setdefault((reduction.layer, reduction.source), []).append(reduction.filters)
    for layer, planned in zip(graph.layers, plan.layers, strict=True):
        faults = list(_owner_faults(planned))
        if layer.sums_channels:
            faults += _shard_faults(layer, planned, plan.settings.batch, sent)
        if faults:
            raise UsageError(f"{faults[0]}; make the plan again")


def _check_model(graph: Graph, plan: Plan) -> None:
    remedy = "give the model the plan was made for, or make the plan again"
    if len(graph.layers) != len(plan.layers):
        raise UsageError(f"the plan has {len(plan.layers)} layers, the model {len(graph.layers)}; {remedy}")
    for layer, planned in zip(graph.layers, plan.layers, strict=True):
        model = (layer.name, layer.kind, str(layer.rule), layer.num_filters)
        if model != (planned.name, planned.kind, planned.rule, planned.num_filters):
            raise UsageError(
                f"the plan's layer {planned.name!r} ({planned.kind}, {planned.num_filters} filters) is {layer.name!r} "
                f"({layer.kind}, {layer.num_filters} filters) in the model; {remedy}"
            )


def _owner_faults(planned: PlannedLayer) -> Iterator[str]:
    """Say where a part has several pieces of the same rows, which would have one name."""
    pieces = [(owner.part, owner.rows) for owner in planned.owners]
    for part, (start, stop) in sorted({piece for piece in pieces if pieces.count(piece) > 1}):
        yield f"the plan's layer {planned.name} has rows {start}:{stop} on part {part} in several pieces instead of one"


def _shard_faults(layer: Layer, planned: PlannedLayer, batch: int, sent: Sent) -> Iterator[str]:
    """Say which kernel is computed never or twice at a row, or where its partial sums are not wanted."""
    kernels = _Kernels(layer, planned)
    wanted = kernels.counted(
        (((start, stop),), channels_read(layer, 0, ((start, stop),))) for start, stop in pairwise(kernels.filters)
    )
    for start, _ in pairwise(sorted({0, batch, *(row for shard in planned.shards for row in shard.rows)})):
        shards = [shard for shard in planned.shards if shard.rows[0] <= start < shard.rows[1]]
        found = kernels.counted((shard.filters, shard.channels) for shard in shards) * wanted  # the groups' own only
        for i, j in np.argwhere(found != wanted)[:1].tolist():
            where = f"filter {kernels.filters[i]} of {layer.name} on channel {kernels.channels[j]}, row {start},"
            yield f"the plan computes {where} {found[i, j]} times instead of {wanted[i, j]}"
    for shard in planned.shards:
        if _reached(planned, shard, sent.get((layer.name, shard.part), [])) != _numbers(shard.filters):
            yield f"the plan does not bring what part {shard.part} computes of {layer.name} to the filters' owners"


class _Kernels:
    """A layer's kernels (filters by channels), in blocks that no shard and no group cuts."""

    def __init__(self, layer: Layer, planned: PlannedLayer) -> None:
        num_channels, groups = layer.operands[0].num_channels, range(layer.groups + 1)
        self.filters = _edges(layer.num_filters, groups, [shard.filters for shard in planned.shards])
        self.channels = _edges(num_channels, groups, [shard.channels for shard in planned.shards])

    def counted(self, pieces: Iterable[tuple[Ranges, Ranges]]) -> Ints:
        """Return how often every block is in the pieces, each filters by channels."""
        counts = np.zeros((len(self.filters) - 1, len(self.channels) - 1), np.int64)
        for filters, channels in pieces:
            for start, stop in filters:
                for low, high in channels:
                    rows = slice(*np.searchsorted(self.filters, (start, stop)))
                    counts[rows, slice(*np.searchsorted(self.channels, (low, high)))] += 1
        return counts


def _edges(size: int, groups: range, ranges: list[Ranges]) -> list[int]:
    ends = {edge for spans in ranges for span in spans for edge in span}
    return sorted(ends | {group * size // groups[-1] for group in groups})


def _reached(planned: PlannedLayer, shard: Shard, sent: list[Ranges]) -> set[int]:
    """Return the filters of a shard that its part owns at all its rows, or sends partial sums of."""
    own = [
        owner.filters
        for owner in planned.owners
        if owner.part == shard.part and owner.rows[0] <= shard.rows[0] and shard.rows[1] <= owner.rows[1]
    ]
    return set().union(*(_numbers(common(filters, shard.filters)) for filters in (*own, *sent)))


def _numbers(ranges: Ranges) -> set[int]:
    return {number for span in ranges for number in range(*span)}
