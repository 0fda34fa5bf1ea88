"""The steps of a layer whose batch norms see rows that several parts have.

Every part computes its tiles up to the norm, and the statistics of its own rows, for all filters it has. The owner of
the filters' weights joins those of all parts and tells them the result, with which they go on. What crosses is two
numbers per channel each way, and their gradients.
"""

from dataclasses import replace

from hyperplace.steps.lower.holdings import Held
from hyperplace.steps.lower.lowering import Lowering, statistics_type
from hyperplace.steps.lower.norms import carried, carried_name, norm_calls, numbered
from hyperplace.steps.lower.steps import Sent, Stage, Step
from hyperplace.values.graph import Layer
from hyperplace.values.plan import PlannedLayer, Ranges


def add_normed(lowering: Lowering, layer: Layer, planned: PlannedLayer) -> None:
    """Add the runs of a layer, each up to the next norm, and between them the statistics of all rows."""
    parts = sorted({owner.part for owner in planned.owners})
    last = len(norm_calls(layer))
    for run in range(last):
        for part in parts:
            _add_run(lowering, layer, planned, part, run)
        if lowering.sharings[layer.name].exchanges_statistics:
            for part in parts:
                _add_total(lowering, layer, part, run)
    for part in parts:
        lowering.add_made(_run(lowering, layer, planned, part, last), layer, part)


def _run(lowering: Lowering, layer: Layer, planned: PlannedLayer, part: int, run: int) -> Step:
    """Return a run with what it reads: operands, the totals before it, and values from earlier runs."""
    tiles = lowering.tiles(layer, planned, part)
    reads = lowering.reads(layer, tiles, part, run)
    if run:
        reads += [held.variable for held in lowering.parts[part].totals[layer.name, run - 1]]
        reads += [carried_name(lowering.names, value, tile) for value in carried(layer, run - 1) for tile in tiles]
    return Step(layer.name, Stage.COMPUTE, tiles, reads=tuple(dict.fromkeys(reads)), run=run, is_run=True)


def _add_run(lowering: Lowering, layer: Layer, planned: PlannedLayer, number: int, run: int) -> None:
    """Add a run that ends before a norm, and tell the owners of filters the statistics of this part's rows."""
    part, sharing = lowering.parts[number], lowering.sharings[layer.name]
    step = _run(lowering, layer, planned, number, run)
    name = lowering.names(layer.name, "statistics", *numbered(layer, run))
    own = Held(name, sharing.filters(number), lowering.all_rows)
    part.statistics.setdefault((layer.name, run), []).insert(0, own)
    sends = []
    if sharing.exchanges_statistics:
        others = [(owner, filters) for owner, filters in sharing.groups(number) if owner != number]
        sends = [_told(lowering, layer, run, own.variable, number, group) for group in others]
    else:
        part.totals[layer.name, run] = [own]
    made = [carried_name(lowering.names, value, tile) for value in carried(layer, run) for tile in step.tiles]
    makes = (*(name for name in made if name not in step.reads), own.variable)
    part.steps.append(replace(step, makes=makes, sends=tuple(sends)))


def _told(lowering: Lowering, layer: Layer, run: int, name: str, source: int, group: tuple[int, Ranges]) -> Sent:
    """Enter the statistics of a part's own rows at the owner of the filters."""
    target, filters = group
    message, variable = lowering.message(name, source, target, statistics_type(layer, run, filters))
    held = Held(variable, filters, lowering.all_rows)
    lowering.parts[target].statistics.setdefault((layer.name, run), []).append(held)
    return Sent(message, filters, lowering.all_rows)


def _add_total(lowering: Lowering, layer: Layer, number: int, run: int) -> None:
    """Add the step in which the owner of filters joins their statistics, and tells the others."""
    part, sharing = lowering.parts[number], lowering.sharings[layer.name]
    if not sharing.owned(number):
        return
    own = Held(lowering.names(layer.name, "total", *numbered(layer, run)), sharing.owned(number), lowering.all_rows)
    part.totals.setdefault((layer.name, run), []).append(own)
    sends = []
    for replica in (replica for replica in sharing.replicas if replica.owner == number):
        kind = statistics_type(layer, run, replica.filters)
        message, variable = lowering.message(own.variable, number, replica.part, kind)
        held = Held(variable, replica.filters, lowering.all_rows)
        lowering.parts[replica.part].totals.setdefault((layer.name, run), []).append(held)
        sends.append(Sent(message, replica.filters, lowering.all_rows))
    reads = tuple(held.variable for held in part.statistics[layer.name, run])
    part.steps.append(Step(layer.name, Stage.TOTAL, reads=reads, makes=(own.variable,), sends=tuple(sends), run=run))
