"""Placements that are tried for their time: by rows up to a border and by filters after, and single steps from one.

Maps are large and weights few where a CNN begins, and the other way round where it ends. So rows first and filters
after lose least to waiting; one step then splits one layer otherwise, or moves some of it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from hyperplace.planning import Placement
from hyperplace.steps.build import build
from hyperplace.steps.partition.dealt import dealt
from hyperplace.values.arrays import Ints
from hyperplace.values.graph import Graph
from hyperplace.values.layout import Layout, layout_of
from hyperplace.values.methods import BY_TIME
from hyperplace.values.partition import Partition
from hyperplace.values.plan import Settings
from hyperplace.values.profile import Profile

ROWS_FIRST = "rows, then filters"


@dataclass(frozen=True)
class Splits:
    """Every layer on all parts, in proportion to their speeds."""

    by_rows: Layout
    by_filters: Layout

    @classmethod
    def of(cls, graph: Graph, costs: Profile, settings: Settings, shares: Sequence[float]) -> "Splits":
        hybrid = build(graph, costs, grain="hybrid", blocks=settings.blocks, fc=settings.fc, row_blocks=settings.batch)
        layouts = (
            layout_of(hybrid, Partition(dealt(hybrid, shares, by_rows=by_rows), settings.k), settings.batch)
            for by_rows in (True, False)
        )
        return cls(*layouts)

    @property
    def num_borders(self) -> int:
        return len(self.by_rows.owners) + 1

    def with_border(self, border: int) -> Layout:
        """Return so many layers by rows, in order, and the others by filters."""
        layers = tuple(self.by_rows.owners)
        owners = {layer: self.by_rows.owners[layer] for layer in layers[:border]}
        owners |= {layer: self.by_filters.owners[layer] for layer in layers[border:]}
        return replace(self.by_rows, owners=owners, found_by=ROWS_FIRST)


def neighbours(made: Placement, splits: Splits, bonded: Sequence[Sequence[str]] = ()) -> Iterator[Layout]:
    """Yield what becomes of a placement if one layer is split otherwise, or some of it goes to another part.

    Layers that pins keep on the same part, `bonded`, also go together.
    """
    batch, num_parts = made.plan.settings.batch, made.partition.num_parts
    for part_of in _moved(made, bonded):
        yield layout_of(made.hypergraph, Partition(part_of, num_parts, BY_TIME), batch)
    for layer, plane in made.layout.owners.items():
        for split in (splits.by_rows, splits.by_filters):
            if split.owners[layer] != plane:
                owners = {**made.layout.owners, layer: split.owners[layer]}
                yield Layout(owners, num_parts, found_by=BY_TIME)


def _moved(made: Placement, bonded: Sequence[Sequence[str]]) -> Iterator[Ints]:
    """Yield the parts of all vertices if all, half or one of a layer's vertices on a part go to another part."""
    labels, part_of = made.hypergraph.labels, made.partition.part_of
    assert labels is not None, "built from a model"
    for layers in (*((layer,) for layer in labels.layers), *bonded):
        numbers = [labels.layers.index(layer) for layer in layers]
        mine = np.flatnonzero(np.isin(labels.layer_of, numbers))
        for source in np.unique(part_of[mine]).tolist():
            group = mine[part_of[mine] == source]
            for target in range(made.partition.num_parts):
                for count in dict.fromkeys((len(group), len(group) // 2, 1)) if target != source else ():
                    if count:
                        moved = part_of.copy()
                        moved[group[-count:]] = target
                        yield moved
