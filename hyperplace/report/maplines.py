"""A plan as the lines of its layer map: what a line says, before anybody draws it."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from hyperplace.values.plan import Plan, PlannedLayer, Ranges, Reduction, Shard, Transfer

MANY_LAYERS = 40  # above this, neighbours on the same single part share a line


@dataclass(frozen=True)
class Run:
    """Neighbouring filters on one part, or, for kernels, how many a part computes."""

    part: int
    size: int


@dataclass(frozen=True)
class MapLine:
    """One layer, or several that sit on the same part; bytes leave for other parts, per mini-batch, forward."""

    first: str
    last: str
    num_layers: int
    num_filters: int
    owners: tuple[Run, ...]  # in the order of the filters
    kernels: tuple[Run, ...]  # by part; empty where owners compute all of their filters
    sent_bytes: int
    partial_bytes: int

    @property
    def is_on_one_part(self) -> bool:
        return len(self.owners) == 1 and not self.kernels


def map_lines(plan: Plan) -> tuple[MapLine, ...]:
    """Return the lines in the order of the layers."""
    sent, partial = _bytes_of(plan.transfers), _bytes_of(plan.reductions)
    lines = [_line(layer, sent[layer.name], partial[layer.name]) for layer in plan.layers]
    return tuple(_collapsed(lines) if len(lines) > MANY_LAYERS else lines)


def _bytes_of(messages: Iterable[Transfer | Reduction]) -> Counter[str]:
    num_bytes: Counter[str] = Counter()
    for message in messages:
        num_bytes[message.layer] += message.num_bytes
    return num_bytes


def _line(layer: PlannedLayer, sent_bytes: int, partial_bytes: int) -> MapLine:
    return MapLine(
        first=layer.name,
        last=layer.name,
        num_layers=1,
        num_filters=layer.num_filters,
        owners=_owner_runs(layer),
        kernels=_kernel_runs(layer),
        sent_bytes=sent_bytes,
        partial_bytes=partial_bytes,
    )


def _owner_runs(layer: PlannedLayer) -> tuple[Run, ...]:
    edges = np.flatnonzero(np.diff(layer.owner_of)) + 1
    return tuple(Run(int(run[0]), len(run)) for run in np.split(layer.owner_of, edges))


def _kernel_runs(layer: PlannedLayer) -> tuple[Run, ...]:
    """Return what every part computes, where some part computes for a filter it does not own."""
    if all(_owns(layer, shard) for shard in layer.shards):
        return ()
    area: dict[int, int] = {}
    for shard in layer.shards:
        size = _size(shard.filters) * _size(shard.channels) * _size((shard.rows,))
        area[shard.part] = area.get(shard.part, 0) + size
    return tuple(Run(part, area[part]) for part in sorted(area))


def _owns(layer: PlannedLayer, shard: Shard) -> bool:
    return all(np.all(layer.owner_of[start:stop] == shard.part) for start, stop in shard.filters)


def _size(ranges: Ranges) -> int:
    return sum(stop - start for start, stop in ranges)


def _collapsed(lines: list[MapLine]) -> list[MapLine]:
    """Join neighbours on the same single part; a line ends where bytes leave, so its last layer sends them."""
    joined: list[MapLine] = []
    for line in lines:
        before = joined[-1] if joined else None
        if before and _continues(before, line):
            joined[-1] = _join(before, line)
        else:
            joined.append(line)
    return joined


def _continues(before: MapLine, line: MapLine) -> bool:
    alone = before.is_on_one_part and line.is_on_one_part and not before.sent_bytes
    return alone and before.owners[0].part == line.owners[0].part


def _join(before: MapLine, line: MapLine) -> MapLine:
    num_filters = before.num_filters + line.num_filters
    return MapLine(
        before.first,
        line.last,
        num_layers=before.num_layers + line.num_layers,
        num_filters=num_filters,
        owners=(Run(line.owners[0].part, num_filters),),
        kernels=(),
        sent_bytes=line.sent_bytes,
        partial_bytes=0,
    )
