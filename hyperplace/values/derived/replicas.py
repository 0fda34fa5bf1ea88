"""Who holds copies of which weights: the parts that compute rows of a filter, besides the one that owns it."""

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from hyperplace.values.cells import Cells
from hyperplace.values.plan import PlannedLayer, Replica
from hyperplace.values.ranges import Ranges, count


def replicas(layer: PlannedLayer) -> Iterator[Replica]:
    """Yield a replica per part and owner, where the layer has parameters, buffers or statistics.

    Also where nothing is exchanged, so that buffers and frozen weights have one owner.
    """
    filter_bytes = layer.facts.parameter_bytes // layer.num_filters
    for (part, owner), filters in sorted(_copies(layer).items()) if layer.facts.has_state else ():
        size = count(filters)
        yield Replica(layer.name, part, owner, filters, size * filter_bytes, size * layer.facts.statistics_bytes)


def tied_replicas(layers: Sequence[PlannedLayer]) -> Iterator[Replica]:
    """Yield the copies of parameters that several layers use: one of each on every part but that of the first layer.

    They are of the first layer that uses them on their part.
    """
    users: dict[str, list[PlannedLayer]] = {}
    for each in layers:
        for tied in each.facts.tied:
            users.setdefault(tied.name, []).append(each)
    sizes: Counter[tuple[str, int, int]] = Counter()  # layer, part and owner
    for name, found in users.items():
        first_on = {layer.owners[0].part: layer for layer in reversed(found)}
        owner = found[0].owners[0].part
        for part in set(first_on) - {owner}:
            size = next(tied.num_bytes for tied in first_on[part].facts.tied if tied.name == name)
            sizes[first_on[part].name, part, owner] += size
    for (layer, part, owner), size in sorted(sizes.items()):
        yield Replica(layer, part, owner, ((0, 1),), size, 0)


def _copies(layer: PlannedLayer) -> dict[tuple[int, int], Ranges]:
    """Return the filters of a part and their owner: of the parts that compute rows the one with most, or the lowest."""
    owned = [(owner.part, (owner.filters, (owner.rows,))) for owner in layer.owners]
    cells = Cells([piece for _, piece in owned])
    owner_of, lengths = cells.painted(owned), np.diff(cells.columns)
    parts = np.unique(owner_of)
    rows = np.column_stack([(owner_of == part) @ lengths for part in parts])
    most = parts[rows.argmax(axis=1)]  # the first of equals, and parts are in order
    found = {}
    for column, part in enumerate(parts.tolist()):
        copied = (rows[:, column] > 0) & (most != part)
        for owner in np.unique(most[copied]).tolist():
            found[part, owner] = cells.lines_of(copied & (most == owner))
    return found
