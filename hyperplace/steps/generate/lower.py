"""What each part does, step by step: which tensors it reads, makes, sends and receives, in the order of the layers.

A layer that its owners compute alone is one step on each of them. A layer whose kernels are spread (fine grain) is two:
partial sums wherever there are kernels, then the reduction and the trailing operations at the owners. A layer with
batch norms whose rows are apart (hybrid grain) is computed up to each norm, then goes on with the statistics of all
rows.
"""

from hyperplace.steps.generate.holdings import Held, wanted
from hyperplace.steps.generate.lowering import Lowering, channels_read
from hyperplace.steps.generate.names import Names
from hyperplace.steps.generate.normed import add_normed
from hyperplace.steps.generate.norms import norm_calls
from hyperplace.steps.generate.outputs import add_outputs
from hyperplace.steps.generate.steps import PartSteps, Sent, Stage, Step
from hyperplace.values.graph import Graph, Layer, Rule
from hyperplace.values.plan import Plan, PlannedLayer, Reduction, Shard
from hyperplace.values.ranges import common


def lower(graph: Graph, plan: Plan, names: Names) -> list[PartSteps]:
    """Return the steps of every part."""
    lowering = Lowering(graph, plan, names)
    for layer, planned in zip(graph.layers, plan.layers, strict=True):
        if layer.rule is Rule.INPUT:
            _add_owned(lowering, layer, planned, Stage.INPUT)
        elif is_spread(layer, planned):
            _add_partials(lowering, layer, planned)
            _add_owned(lowering, layer, planned, Stage.FINISH)
        elif layer.name in lowering.sharings and norm_calls(layer):
            add_normed(lowering, layer, planned)
        else:
            _add_owned(lowering, layer, planned, Stage.COMPUTE)
    add_outputs(lowering)
    return lowering.parts


def is_spread(layer: Layer, planned: PlannedLayer) -> bool:
    """Say whether some filter's kernels are not all where the filter is owned."""
    if not layer.sums_channels:
        return False
    return {(owner.part, owner.filters, owner.rows) for owner in planned.owners} != {
        (shard.part, shard.filters, shard.rows) for shard in planned.shards if _is_complete(layer, shard)
    }


def _is_complete(layer: Layer, shard: Shard) -> bool:
    return shard.channels == channels_read(layer, 0, shard.filters)


def _add_owned(lowering: Lowering, layer: Layer, planned: PlannedLayer, stage: Stage) -> None:
    """Add the step of every part that owns some of a layer."""
    for part in sorted({owner.part for owner in planned.owners}):
        tiles = lowering.tiles(layer, planned, part)
        if stage is Stage.FINISH:
            partials, mine = lowering.parts[part].partials[layer.name], tiles[0].filters
            reads = [held.variable for held in partials if common(held.filters, mine)]
        else:
            reads = lowering.reads(layer, tiles, part)
        lowering.add_made(Step(layer.name, stage, tiles, reads=tuple(dict.fromkeys(reads))), layer, part)


def _add_partials(lowering: Lowering, layer: Layer, planned: PlannedLayer) -> None:
    """Add the step of every part that has kernels of the layer, and the partial sums it sends."""
    names = lowering.names
    name = names(layer.name, "partial")
    for number in sorted({shard.part for shard in planned.shards}):
        part = lowering.parts[number]
        shards = tuple(shard for shard in planned.shards if shard.part == number)
        operands = tuple(wanted(layer.operands[0], shard.channels) for shard in shards)
        makes = [names(layer.name, "partial", i) for i in range(len(shards))] if len(shards) > 1 else [name]
        own = [Held(variable, shard.filters, shard.rows) for variable, shard in zip(makes, shards, strict=True)]
        part.partials[layer.name] = own + part.partials.get(layer.name, [])
        sends = [_reduced(lowering, name, r) for r in lowering.reductions[layer.name] if r.source == number]
        reads = dict.fromkeys(v for pieces in operands for v in part.variables(pieces, lowering.all_rows))
        part.steps.append(
            Step(layer.name, Stage.PARTIAL, (), shards, operands, tuple(reads), tuple(makes), tuple(sends))
        )


def _reduced(lowering: Lowering, name: str, reduction: Reduction) -> Sent:
    """Enter partial sums at their receiver."""
    message = lowering.message(name, reduction.source, reduction.target, learns=reduction.learns)
    held = Held(message.variable, reduction.filters, reduction.rows)
    lowering.parts[reduction.target].partials.setdefault(reduction.layer, []).append(held)
    return Sent(message, reduction.filters, reduction.rows)
