"""Turn a plan into what every part does: Graph + Plan (+ Profile) -> Program.

Layer by layer, every part gets its steps: which tensors it reads, makes, sends and receives.

A layer that its owners compute alone is one step on each of them. A layer whose kernels are spread (fine grain) is two:
partial sums wherever there are kernels, then the reduction and the trailing operations at the owners. A layer with
batch norms whose rows are apart (hybrid grain) is computed up to each norm, then goes on with the statistics of all
rows.
"""

from typing import Any

import numpy as np

from hyperplace.errors import UsageError
from hyperplace.steps.lower.check import check
from hyperplace.steps.lower.costs import Costs
from hyperplace.steps.lower.holdings import Held, Wanted, wanted
from hyperplace.steps.lower.lowering import Lowering, output_type, partial_type
from hyperplace.steps.lower.normed import add_normed
from hyperplace.steps.lower.norms import norm_calls
from hyperplace.steps.lower.parts import PartWriter
from hyperplace.steps.lower.steps import PartSteps, Sent, Stage, Step
from hyperplace.steps.lower.text import Names
from hyperplace.values.graph import Graph, Layer, Ref, Rule
from hyperplace.values.plan import Plan, PlannedLayer, Reduction, Shard
from hyperplace.values.profile import Profile
from hyperplace.values.program import Program, Slot
from hyperplace.values.ranges import Mask, common, count, rectangles


def lower(graph: Graph, plan: Plan, profile: Profile | None = None) -> Program:
    """Return the program of a plan; the graph is that of the model the plan was made for.

    Segments cost what the profile says, or else what the plan has of the profile it was made with.
    """
    check(graph, plan)
    lowering = _placed(graph, plan)
    _check_messages(lowering.parts)
    costs = Costs(graph, plan, profile)
    settings = plan.settings
    return Program(
        settings.model,
        inputs=tuple(layer.shape[1:] for layer in graph.layers if layer.rule is Rule.INPUT),
        parts=tuple(PartWriter(lowering, part, costs).part() for part in lowering.parts),
        batch=settings.batch,
        messages=tuple(lowering.messages),
        grain=settings.grain,
        unit=costs.unit,
        takes=None if _is_positional(graph) else _slotted(graph.takes),
        returns=None if graph.returns == Ref("0") else _slotted(graph.returns),
        rows=(graph.fewest_rows, graph.most_rows),
        predicts=graph.evaluates,
    )


def _is_positional(graph: Graph) -> bool:
    inputs = [layer for layer in graph.layers if layer.rule is Rule.INPUT]
    return bool(graph.takes == (tuple(Ref(str(number)) for number in range(len(inputs))), {}))


def _slotted(value: Any) -> Any:
    """Return what a model takes or returns with a Slot for every tensor."""
    if isinstance(value, Ref):
        return Slot(int(value.name))
    if isinstance(value, dict):
        return {key: _slotted(one) for key, one in value.items()}
    return type(value)(map(_slotted, value)) if isinstance(value, tuple | list) else value


def _check_messages(parts: list[PartSteps]) -> None:
    for part in parts:
        read = {variable for step in part.steps for variable in step.reads}
        for variable, message in part.received.items():
            if variable not in read:
                raise UsageError(
                    f"the plan sends {message.name} from part {message.source} to part {message.target}, where nothing "
                    "reads it; make the plan again"
                )


def _placed(graph: Graph, plan: Plan) -> Lowering:
    """Give every part its steps."""
    lowering = Lowering(graph, plan, Names())
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
    return lowering


def is_spread(layer: Layer, planned: PlannedLayer) -> bool:
    """Say whether some filter's kernels are not all where the filter is owned."""
    if not layer.sums_channels:
        return False
    return {(owner.part, owner.filters, owner.rows) for owner in planned.owners} != {
        (shard.part, shard.filters, shard.rows) for shard in planned.shards if _is_complete(layer, shard)
    }


def _is_complete(layer: Layer, shard: Shard) -> bool:
    return shard.channels == layer.channels_read(layer.operands[0], shard.filters)


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
    kind, rows = partial_type(lowering.graph[reduction.layer], reduction.filters, reduction.rows)
    message, variable = lowering.message(name, reduction.source, reduction.target, kind, rows, learns=reduction.learns)
    held = Held(variable, reduction.filters, reduction.rows)
    lowering.parts[reduction.target].partials.setdefault(reduction.layer, []).append(held)
    return Sent(message, reduction.filters, reduction.rows)


def add_outputs(lowering: Lowering) -> None:
    """Add the step that puts the model's outputs together on the part that owns most of them, where the loss sees them.

    What other parts own of them is sent there, which no plan counts: it belongs to the caller.
    """
    operands = tuple(wanted(operand, ((0, operand.num_channels),)) for operand in lowering.graph.outputs)
    target = lowering.parts[_loss_part(lowering, operands)]
    needs: dict[tuple[str, int], set[int]] = {}
    for piece in (piece for pieces in operands for piece in pieces):
        needs.setdefault((piece.layer, piece.result), set()).update(range(*piece.filters))
    for (layer, result), filters in needs.items():
        _send_outputs(lowering, lowering.graph[layer], result, filters, target)
    reads = dict.fromkeys(v for pieces in operands for v in target.variables(pieces, lowering.all_rows))
    makes = tuple(lowering.names("output", number) for number in range(len(operands)))
    target.steps.append(Step("", Stage.OUTPUT, operands=operands, reads=tuple(reads), makes=makes))


def _loss_part(lowering: Lowering, operands: tuple[tuple[Wanted, ...], ...]) -> int:
    owned = [0] * lowering.plan.settings.k
    for piece in (piece for pieces in operands for piece in pieces):
        for owner in lowering.plan.layers[lowering.graph.index_of[piece.layer]].owners:
            owned[owner.part] += count(owner.filters) * count((owner.rows,))
    return owned.index(max(owned))


def _send_outputs(lowering: Lowering, layer: Layer, result: int, filters: set[int], target: PartSteps) -> None:
    """Send what other parts own of an output, unless it is there already because a layer reads it."""
    needed = np.zeros((layer.num_filters, lowering.plan.settings.batch), bool)
    needed[sorted(filters)] = True
    missing = needed & ~_cells(target.held.get(layer.name, {}).get(result, []), needed)
    edges = np.arange(needed.shape[1] + 1)
    for part in lowering.parts:
        if part is target or layer.name not in part.held:
            continue
        pieces = list(rectangles(_cells(part.own(layer.name, result), needed) & missing, edges))
        for spans, rows in pieces:
            words = [*([result] if layer.results else []), "output", *(rows if len(pieces) > 1 else ())]
            name, learns = lowering.names(layer.name, *words), layer.name in lowering.graph.learning
            kind, followed = output_type(layer, result, spans, rows)
            message, variable = lowering.message(
                name, part.part, target.part, kind, followed, learns=learns, planned=False
            )
            target.hold(layer.name, result, Held(variable, spans, rows))
            reads = tuple(held.variable for held in part.own(layer.name, result))
            sent = Sent(message, spans, rows, result)
            part.steps.append(Step(layer.name, Stage.OUTPUT, reads=reads, sends=(sent,)))


def _cells(held: list[Held], like: Mask) -> Mask:
    """Mark the filters and rows that some tensors have."""
    cells = np.zeros_like(like)
    for tensor in held:
        for start, stop in tensor.filters:
            cells[start:stop, slice(*tensor.rows)] = True
    return cells
