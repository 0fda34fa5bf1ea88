"""A plan as the lines of its layer map, and what its parts exchange: what is shown, before anybody draws it."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import islice

import numpy as np

from hyperplace.values.arrays import Ints
from hyperplace.values.derived.messages import crossings
from hyperplace.values.plan import Plan, PlannedLayer, Ranges, Reduction, Shard, Transfer

MANY_LAYERS = 40  # above this, neighbours on the same single part, or split in the same shares, share a line


@dataclass(frozen=True)
class Run:
    """Neighbouring filters, or rows, on one part; for kernels and pieces of both, how many a part has."""

    part: int
    size: int


@dataclass(frozen=True)
class MapLine:
    """One layer, or several that sit on the same part; bytes leave for other parts, per mini-batch, forward.

    Of a hybrid plan they are all that the layer moves in training, and `split` says how it is split.
    """

    first: str
    last: str
    num_layers: int
    num_filters: int
    owners: tuple[Run, ...]  # in the order of the filters
    kernels: tuple[Run, ...]  # by part; empty where owners compute all of their filters
    sent_bytes: int
    partial_bytes: int
    split: str = (
        ""  # hybrid: "by rows", "by filters", "by both" or "whole"; the owners are in the order of what is split
    )

    @property
    def is_on_one_part(self) -> bool:
        return len(self.owners) == 1 and not self.kernels


def map_lines(plan: Plan) -> tuple[MapLine, ...]:
    """Return the lines in the order of the layers."""
    is_hybrid = plan.settings.grain == "hybrid"
    sent = _training_bytes(plan) if is_hybrid else _bytes_of(plan.transfers)
    partial = _bytes_of(plan.reductions)
    lines = [
        replace(_line(layer, sent[layer.name], partial[layer.name]), split=_split(layer) if is_hybrid else "")
        for layer in plan.layers
    ]
    return tuple(_collapsed(lines) if len(lines) > MANY_LAYERS else lines)


def _bytes_of(messages: Iterable[Transfer | Reduction]) -> Counter[str]:
    num_bytes: Counter[str] = Counter()
    for message in messages:
        num_bytes[message.layer] += message.num_bytes
    return num_bytes


def _training_bytes(plan: Plan) -> Counter[str]:
    num_bytes: Counter[str] = Counter()
    for message in plan.transfers:
        num_bytes[message.layer] += message.num_bytes * (1 + message.learns)
    for replica in plan.replicas:
        num_bytes[replica.layer] += replica.training_bytes
    return num_bytes


def _split(layer: PlannedLayer) -> str:
    if len({owner.part for owner in layer.owners}) == 1:
        return "whole"
    cells = _cells(layer)
    if (cells == cells[:1]).all():
        return "by filters"
    return "by rows" if (cells == cells[:, :1]).all() else "by both"


def _cells(layer: PlannedLayer) -> Ints:
    """Return the owner of every run of rows (line) of every filter (column)."""
    return np.array([layer.owner_of_row(start) for start in layer.row_edges[:-1]])


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
    if len(layer.row_edges) > 2:
        return _row_runs(layer)
    edges = np.flatnonzero(np.diff(layer.owner_of)) + 1
    return tuple(Run(int(run[0]), len(run)) for run in np.split(layer.owner_of, edges))


def _row_runs(layer: PlannedLayer) -> tuple[Run, ...]:
    """Return the runs of rows, or, where filters differ in theirs, what every part has in all."""
    cells, lengths = _cells(layer), np.diff(layer.row_edges).tolist()
    if (cells == cells[:, :1]).all():
        return tuple(Run(int(part), length) for part, length in zip(cells[:, 0], lengths, strict=True))
    sizes = np.bincount(cells.ravel(), np.repeat(lengths, cells.shape[1])).astype(np.int64)
    return tuple(Run(part, int(sizes[part])) for part in np.flatnonzero(sizes).tolist())


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
    owner = layer.owner_of_row(shard.rows[0])
    return all(np.all(owner[start:stop] == shard.part) for start, stop in shard.filters)


def _size(ranges: Ranges) -> int:
    return sum(stop - start for start, stop in ranges)


def _collapsed(lines: list[MapLine]) -> list[MapLine]:
    """Join neighbours on the same single part, and those that are split in the same way in the same shares.

    On a single part a line ends where bytes leave, so its last layer sends them.
    """
    joined: list[MapLine] = []
    for line in lines:
        before = joined[-1] if joined else None
        if before and _continues(before, line):
            joined[-1] = _join(before, line)
        else:
            joined.append(line)
    return joined


def _continues(before: MapLine, line: MapLine) -> bool:
    if before.split == line.split and len(line.owners) > 1 and not (before.kernels or line.kernels):
        return _shares(before) == _shares(line)
    alone = before.is_on_one_part and line.is_on_one_part and not before.sent_bytes
    return alone and before.owners[0].part == line.owners[0].part


def _shares(line: MapLine) -> list[tuple[int, Fraction]]:
    """Return what share of a line's filters or rows every run has."""
    total = sum(run.size for run in line.owners)
    return [(run.part, Fraction(run.size, total)) for run in line.owners]


def _join(before: MapLine, line: MapLine) -> MapLine:
    num_filters = before.num_filters + line.num_filters
    return MapLine(
        before.first,
        line.last,
        num_layers=before.num_layers + line.num_layers,
        num_filters=num_filters,
        owners=line.owners if len(line.owners) > 1 else (Run(line.owners[0].part, num_filters),),
        kernels=(),
        sent_bytes=before.sent_bytes + line.sent_bytes,
        partial_bytes=0,
        split=line.split,
    )


def line_edges(plan: Plan, lines: Sequence[MapLine]) -> dict[tuple[int, int], int]:
    """Return which lines read which others, by their numbers, and the bytes that cross between parts on the way."""
    number_of: dict[str, int] = {}
    names = iter(layer.name for layer in plan.layers)
    for number, line in enumerate(lines):
        number_of |= dict.fromkeys(islice(names, line.num_layers), number)
    found: Counter[tuple[int, int]] = Counter()
    for (source, target), num_bytes in crossings(plan.layers, plan.settings).items():
        pair = number_of[source], number_of[target]
        if pair[0] != pair[1]:
            found[pair] += num_bytes
    return dict(found)


def traffic(plan: Plan) -> tuple[list[int], list[int]]:
    """Return the bytes every part sends and receives, of a training iteration if the plan was judged by that.

    Otherwise those of the forward pass.
    """
    if not plan.metrics.judges_training:
        return [part.sent_bytes for part in plan.metrics.parts], [part.received_bytes for part in plan.metrics.parts]
    sent, received = [0] * plan.settings.k, [0] * plan.settings.k
    for (_, source, target), num_bytes in plan.moved_bytes.items():
        sent[source] += num_bytes
        received[target] += num_bytes
    return sent, received


def messages(plan: Plan) -> tuple[list[int], list[int]]:
    """Return how many messages every part sends and receives, of the same work as `traffic`."""
    parts = plan.metrics.parts
    if not plan.metrics.judges_training:
        return [part.num_sent for part in parts], [part.num_received for part in parts]
    sent, received = [0] * len(parts), [0] * len(parts)
    routes = [(message.source, message.target) for message in plan.messages]
    routes += [(message.target, message.source) for message in plan.messages if message.learns]
    for replica in plan.replicas:  # gradients there and weights back, and statistics both ways in both passes
        routes += [(replica.part, replica.peer), (replica.peer, replica.part)] * bool(replica.parameter_bytes)
        routes += [(replica.part, replica.owner), (replica.owner, replica.part)] * (2 * bool(replica.statistics_bytes))
    for source, target in routes:
        sent[source] += 1
        received[target] += 1
    return sent, received
