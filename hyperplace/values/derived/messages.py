"""Who needs what from whom: every transfer and reduction of a placement, from owners, shards and what layers read."""

from collections.abc import Iterator, Sequence

import numpy as np

from hyperplace.values.cells import Cells, Piece
from hyperplace.values.derived.shards import has_kernels
from hyperplace.values.plan import PlannedLayer, Reduction, Settings, Transfer
from hyperplace.values.ranges import Range, Ranges, common, count, union

Reader = tuple[int, Range]  # a part and the rows it wants
Needs = dict[str, dict[int, list[Piece]]]  # by layer and part: filters and rows


def transfers(layers: Sequence[PlannedLayer], settings: Settings) -> tuple[Transfer, ...]:
    """Return the outputs that parts read and do not own: per layer and pair of parts a message per range of rows."""
    needs: Needs = {layer.name: {} for layer in layers}
    for layer in layers:
        _add_needs(layer, settings, needs)
    return tuple(message for layer in layers for message in _transfers(layer, needs[layer.name]))


def crossings(layers: Sequence[PlannedLayer], settings: Settings) -> dict[tuple[str, str], int]:
    """Return for every layer and each that reads it the bytes that parts read and do not own.

    What several layers read on one part is sent to it once, and counted here for each.
    """
    layer_of = {layer.name: layer for layer in layers}
    found: dict[tuple[str, str], int] = {}
    for reader in layers:
        needs: Needs = {run.layer: {} for reading in reader.facts.readings for run in reading.runs}
        _add_needs(reader, settings, needs)
        for name, some in needs.items():
            found[name, reader.name] = sum(message.num_bytes for message in _transfers(layer_of[name], some))
    return found


def _add_needs(layer: PlannedLayer, settings: Settings, needs: Needs) -> None:
    for number, reading in enumerate(layer.facts.readings):
        for channels, readers in _readers(layer, settings, number).items():
            for name, filters in reading.filters_of(channels):
                for part, rows in readers:
                    needs[name].setdefault(part, []).append((filters, (rows,)))


def _readers(layer: PlannedLayer, settings: Settings, number: int) -> dict[Ranges, list[Reader]]:
    """Return who reads which channels of a layer's numbered tensor."""
    found: dict[Ranges, list[Reader]] = {}
    if has_kernels(layer, settings):
        for shard in layer.shards:
            found.setdefault(shard.channels, []).append((shard.part, shard.rows))
        return found
    reading = layer.facts.readings[number]
    for owner in layer.owners:
        channels = layer.facts.channels_read(reading, owner.filters, layer.num_filters)
        found.setdefault(channels, []).append((owner.part, owner.rows))
    return found


def _transfers(layer: PlannedLayer, needs: dict[int, list[Piece]]) -> Iterator[Transfer]:
    owned = [(owner.part, (owner.filters, (owner.rows,))) for owner in layer.owners]
    cells = Cells([*(piece for _, piece in owned), *(piece for pieces in needs.values() for piece in pieces)])
    owner_of = cells.painted(owned)
    for target in sorted(needs):
        missing = cells.marked(needs[target]) & (owner_of != target)
        for source in np.unique(owner_of[missing]).tolist():
            for filters, rows in cells.rectangles(missing & (owner_of == source)):
                num_bytes = count(filters) * (rows[1] - rows[0]) * layer.facts.map_bytes + layer.facts.fixed_bytes
                yield Transfer(layer.name, source, target, filters, rows, num_bytes, layer.facts.learns)


def reductions(layers: Sequence[PlannedLayer], settings: Settings) -> tuple[Reduction, ...]:
    """Return one message per layer and pair of parts: the partial sums of filters the target owns."""
    return tuple(
        message for layer in layers if has_kernels(layer, settings) for message in _reductions(layer, settings.batch)
    )


def _reductions(layer: PlannedLayer, batch: int) -> Iterator[Reduction]:
    for source in sorted({shard.part for shard in layer.shards}):
        computed = union(shard.filters for shard in layer.shards if shard.part == source)
        for owner in layer.owners:
            filters = common(computed, owner.filters) if owner.part != source else ()
            if filters:
                num_bytes = count(filters) * batch * layer.facts.partial_bytes
                yield Reduction(layer.name, source, owner.part, filters, (0, batch), num_bytes, layer.facts.learns)
