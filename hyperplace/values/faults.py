"""What can be wrong with a plan's layers by themselves: sizes, parts, ranges, and cells without exactly one owner.

A plan may come from anywhere, so sizes are looked at first, and ranges are never taken apart into their numbers.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from hyperplace.values.cells import Cells

if TYPE_CHECKING:
    from hyperplace.values.plan import Owner, Plan, PlannedLayer, Shard
    from hyperplace.values.ranges import Range, Ranges

MOST_PARTS = 2**10  # each is a thread, or a process
MOST_FILTERS = 2**24  # of all layers together
WORDS = ("name", "kind", "rule", "reason")


def plan_faults(plan: "Plan") -> list[str]:
    """Return what is wrong, in the user's words; an empty list for a plan that may exist."""
    faults = [*_size_faults(plan), *_word_faults(plan)]
    faults = faults or [fault for layer in plan.layers for fault in _layer_faults(layer, plan)]
    return faults or plan.settings.pins.broken({layer.name: layer.parts for layer in plan.layers})


def first_of(faults: Sequence[str]) -> str:
    """Return the first few of many faults as one line."""
    more = f" (and {len(faults) - 5} more)" if len(faults) > 5 else ""
    return "; ".join(faults[:5]) + more


def _size_faults(plan: "Plan") -> Iterator[str]:
    settings = plan.settings
    if settings.grain == "auto":
        yield "its grain is auto, but a plan is of one grain"
    if settings.k > MOST_PARTS:
        yield f"it has {settings.k} parts, more than {MOST_PARTS}"
    if len({layer.name for layer in plan.layers}) < len(plan.layers):
        yield "two layers have one name"
    yield from (f"{layer.name} has {layer.num_filters} filters" for layer in plan.layers if layer.num_filters < 1)
    if (total := sum(layer.num_filters for layer in plan.layers)) > MOST_FILTERS:
        yield f"its layers have {total} filters, more than {MOST_FILTERS}"


def _word_faults(plan: "Plan") -> Iterator[str]:
    """Say which words cannot be written to a program: JSON may hold half of a pair of surrogates."""
    named = {"model": plan.settings.model, "partitioner": plan.settings.partitioner}
    named |= {"found_by": plan.metrics.found_by, "work_unit": plan.metrics.work_unit}
    named |= {f"{name} of layer {n}": getattr(layer, name) for n, layer in enumerate(plan.layers) for name in WORDS}
    for name, word in named.items():
        if any("\ud800" <= character <= "\udfff" for character in word):
            yield f"the {name} is {word!a}, which is not text"


def _layer_faults(layer: "PlannedLayer", plan: "Plan") -> Iterator[str]:
    faults = [fault for owner in layer.owners for fault in _piece_faults(layer, owner, plan)]
    yield from faults or _owner_faults(layer, plan.settings.batch)
    for shard in layer.shards:
        yield from _piece_faults(layer, shard, plan)
        yield from _range_faults(layer.name, "channels", shard.channels, layer.num_channels)


def _piece_faults(layer: "PlannedLayer", piece: "Owner | Shard", plan: "Plan") -> Iterator[str]:
    if not 0 <= piece.part < plan.settings.k:
        yield f"{layer.name} names part {piece.part}, outside 0..{plan.settings.k - 1}"
    yield from _range_faults(layer.name, "filters", piece.filters, layer.num_filters)
    yield from _row_faults(layer.name, piece.rows, plan)


def _range_faults(where: str, what: str, ranges: "Ranges", size: int) -> Iterator[str]:
    if not ranges:
        yield f"{where} has a piece without {what}"
    for start, stop in ranges:
        if not 0 <= start < stop <= size:
            yield f"{where} has {what} {start}:{stop}, outside 0:{size}"
    for (_, stop), (start, _) in pairwise(ranges):
        if start < stop:
            yield f"{where} has {what} from {start} after {what} up to {stop} in one piece"


def _row_faults(where: str, rows: "Range", plan: "Plan") -> Iterator[str]:
    """Check a range of rows; only the hybrid grain splits them."""
    batch = plan.settings.batch
    if not 0 <= rows[0] < rows[1] <= batch:
        yield f"{where} has rows {rows[0]}:{rows[1]}, outside 0:{batch}"
    elif plan.settings.grain != "hybrid" and rows != (0, batch):
        yield f"{where} has rows {rows[0]}:{rows[1]}, but only the hybrid grain splits rows"


def _owner_faults(layer: "PlannedLayer", batch: int) -> Iterator[str]:
    """Say where a cell has no owner or several."""
    pieces = [(owner.filters, (owner.rows,)) for owner in layer.owners]
    cells = Cells([*pieces, (((0, layer.num_filters),), ((0, batch),))])
    counts = cells.counted(pieces)
    for column, line in np.argwhere(counts.T != 1)[:1].tolist():
        where = f"filter {cells.lines[line]} of {layer.name}"
        where += f", row {cells.columns[column]}," if len(cells.columns) > 2 else ""
        yield f"{where} has {counts[line, column]} owners instead of 1"
