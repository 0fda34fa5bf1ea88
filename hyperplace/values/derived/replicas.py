"""Who holds copies of which weights: the parts that compute rows of a filter, besides the one that owns its weights.

Which of them owns them is a plan's choice, and moves no byte more or less. Where a plan has not chosen, the filters
that the same n parts have are cut into n runs of neighbours, as equal as can be: then no network card carries, and no
part updates, much more than another.

    filters 0:7 on parts 0 and 1, 7:9 on part 1 alone; part 1 owns less of the layers before
    weights of 0:3 are part 0's, 3:9 part 1's; so part 0 has a copy of 3:7, and part 1 of 0:3
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hyperplace.values.cells import Cells
from hyperplace.values.plan import PlannedLayer, Replica
from hyperplace.values.ranges import Ranges, common, count, places, union, without

Kept = dict[int, Ranges]  # the filters whose weights each part owns


@dataclass(frozen=True)
class Held:
    """Filters of a layer of which the same parts compute rows."""

    parts: tuple[int, ...]  # in order
    filters: Ranges


# Filters that some parts have, the bytes of weights every part owns so far, how many layers had copies before: how many
# of the filters each of the parts owns.
Share = Callable[[Held, Counter[int], int], Sequence[int]]


def evenly(held: Held, owned_bytes: Counter[int], number: int) -> Sequence[int]:
    """Give all parts as many filters, and what is left over to those that own least."""
    size, left = divmod(count(held.filters), len(held.parts))
    lightest = sorted(held.parts, key=lambda part: (owned_bytes[part], part))[:left]
    return [size + (part in lightest) for part in held.parts]


def replicas(
    layers: Sequence[PlannedLayer], chosen: Sequence[Replica] = (), share: Share = evenly
) -> Iterator[Replica]:
    """Yield a replica per layer, part and owner, where the layer has parameters, buffers or statistics.

    Also where nothing is exchanged, so that buffers and frozen weights have one owner. The owners in `chosen` stay
    those of a layer, if every one of its filters has one of them; else its filters are shared out.
    """
    copies: dict[str, list[Replica]] = {}
    for replica in chosen:
        copies.setdefault(replica.layer, []).append(replica)
    owned_bytes: Counter[int] = Counter()
    number = 0
    for layer in (layer for layer in layers if layer.facts.has_state):
        held = _held(layer)
        kept = _chosen(layer, held, copies.get(layer.name, [])) or _shared(held, share, owned_bytes, number)
        filter_bytes = layer.facts.parameter_bytes // layer.num_filters
        for part, filters in kept.items():
            owned_bytes[part] += count(filters) * filter_bytes
        found = list(_replicas(layer, held, kept))
        number += bool(found)
        yield from found


def _held(layer: PlannedLayer) -> list[Held]:
    """Return the filters by the parts that compute rows of them, in the order of their first filters."""
    owned = [(owner.part, (owner.filters, (owner.rows,))) for owner in layer.owners]
    cells = Cells([piece for _, piece in owned])
    owner_of = cells.painted(owned)
    parts = np.unique(owner_of)
    has_rows = np.column_stack([(owner_of == part).any(axis=1) for part in parts])
    patterns, first, pattern_of = np.unique(has_rows, axis=0, return_index=True, return_inverse=True)
    return [
        Held(tuple(parts[patterns[number]].tolist()), cells.lines_of(pattern_of.ravel() == number))
        for number in np.argsort(first)
    ]


def _chosen(layer: PlannedLayer, held: Sequence[Held], copies: Sequence[Replica]) -> Kept | None:
    """Return who owns what if these are the copies: a part that has filters, and no copy of them, owns their weights.

    None where that leaves a filter without an owner, or with several.
    """
    copied: dict[int, list[Ranges]] = {}
    for copy in copies:
        copied.setdefault(copy.part, []).append(copy.filters)
    kept = {part: without(filters, union(copied.get(part, []))) for part, filters in _filters(held).items()}
    is_once = union(kept.values()) == ((0, layer.num_filters),) and sum(map(count, kept.values())) == layer.num_filters
    return kept if is_once else None


def _filters(held: Sequence[Held]) -> dict[int, Ranges]:
    """Return the filters that each part computes rows of."""
    found: dict[int, list[Ranges]] = {}
    for one in held:
        for part in one.parts:
            found.setdefault(part, []).append(one.filters)
    return {part: union(lists) for part, lists in found.items()}


def _shared(held: Sequence[Held], share: Share, owned_bytes: Counter[int], number: int) -> Kept:
    kept: dict[int, list[Ranges]] = {}
    for one in held:
        start = 0
        for part, size in zip(one.parts, share(one, owned_bytes, number), strict=True):
            kept.setdefault(part, []).append(places(one.filters, start, start + size))
            start += size
    return {part: union(lists) for part, lists in kept.items()}


def _replicas(layer: PlannedLayer, held: Sequence[Held], kept: Mapping[int, Ranges]) -> Iterator[Replica]:
    found: dict[tuple[int, int], list[Ranges]] = {}  # by part and owner
    for one in held:
        for owner in one.parts if len(one.parts) > 1 else ():
            if lent := common(one.filters, kept[owner]):
                for part in one.parts:
                    found.setdefault((part, owner), []).append(lent)
    filter_bytes = layer.facts.parameter_bytes // layer.num_filters
    for (part, owner), lists in sorted(found.items()):
        if part != owner:
            filters = union(lists)
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
