"""Owners and shards in their one form: whatever else says the same is another way to write it."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from hyperplace.values.cells import Cells
from hyperplace.values.plan import Owner, PlannedLayer, Settings, Shard


def has_kernels(layer: PlannedLayer, settings: Settings) -> bool:
    """Say whether shards are kernels that lie where they please; otherwise they follow from the owners."""
    return settings.grain == "fine" and layer.facts.sums_channels


def arranged(layer: PlannedLayer, settings: Settings) -> PlannedLayer:
    """Return the layer with its owners and shards in the order of their parts, as few and as large as can be."""
    owners = tuple(_owners(layer))
    shards = _kernel_shards(layer, settings.batch) if has_kernels(layer, settings) else _filter_shards(layer, owners)
    return replace(layer, owners=owners, shards=tuple(shards))


def _owners(layer: PlannedLayer) -> Iterator[Owner]:
    """Yield what each part owns, filters of the same rows together."""
    pieces = [(owner.part, (owner.filters, (owner.rows,))) for owner in layer.owners]
    cells = Cells([piece for _, piece in pieces])
    owner_of = cells.painted(pieces)
    for part in np.unique(owner_of).tolist():
        yield from (Owner(part, filters, rows) for filters, rows in cells.rectangles(owner_of == part))


def _filter_shards(layer: PlannedLayer, owners: tuple[Owner, ...]) -> Iterator[Shard]:
    """Yield a shard per piece that a part owns: its filters with every channel of the first tensor they read."""
    for reading in layer.facts.readings[:1]:
        for owner in owners:
            channels = layer.facts.channels_read(reading, owner.filters, layer.num_filters)
            yield Shard(owner.part, owner.filters, channels, owner.rows)


def _kernel_shards(layer: PlannedLayer, batch: int) -> Iterator[Shard]:
    """Yield, per part, a shard for all filters of which it computes the same channels: few and dense."""
    for part in sorted({shard.part for shard in layer.shards}):
        pieces = [(shard.filters, shard.channels) for shard in layer.shards if shard.part == part]
        cells = Cells(pieces)
        patterns, pattern_of = np.unique(cells.marked(pieces), axis=0, return_inverse=True)
        shards = [
            Shard(part, cells.lines_of(pattern_of.ravel() == number), cells.columns_of(pattern), (0, batch))
            for number, pattern in enumerate(patterns)
            if pattern.any()
        ]
        yield from sorted(shards, key=lambda shard: shard.filters)
