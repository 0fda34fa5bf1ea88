"""The model's outputs on one part, where the loss sees them.

What other parts own of them is sent there, which no plan counts: it belongs to the caller.
"""

import numpy as np

from hyperplace.steps.lower.holdings import Held, Wanted, wanted
from hyperplace.steps.lower.lowering import Lowering, output_type
from hyperplace.steps.lower.steps import PartSteps, Sent, Stage, Step
from hyperplace.values.graph import Layer
from hyperplace.values.ranges import Mask, count, rectangles


def add_outputs(lowering: Lowering) -> None:
    """Add the step that puts the model's outputs together on the part that owns most of them."""
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
