"""A plan on its way to steps: the parts so far, what all kinds of layers add to them, and the types of messages."""

from dataclasses import replace

from hyperplace.steps.lower.holdings import Held, wanted
from hyperplace.steps.lower.norms import norm_width, read_in_run, runs
from hyperplace.steps.lower.sharing import sharings
from hyperplace.steps.lower.steps import PartSteps, Sent, Step, Tile
from hyperplace.steps.lower.text import Names
from hyperplace.values.graph import Graph, Layer, Rows, Rule, TensorType
from hyperplace.values.plan import Owner, Plan, PlannedLayer, Range, Ranges, Reduction, Transfer
from hyperplace.values.program import Message
from hyperplace.values.ranges import count


class Lowering:
    """The steps of all parts, built layer by layer."""

    def __init__(self, graph: Graph, plan: Plan, names: Names) -> None:
        self.graph, self.plan, self.names = graph, plan, names
        self.all_rows = (0, plan.settings.batch)
        self.parts = [PartSteps(part) for part in range(plan.settings.k)]
        self.messages: list[Message] = []
        self.sharings = sharings(plan)
        self.reductions: dict[str, list[Reduction]] = {layer.name: [] for layer in graph.layers}
        self._transfers: dict[str, list[Transfer]] = {layer.name: [] for layer in graph.layers}
        for transfer in plan.transfers:
            self._transfers[transfer.layer].append(transfer)
        for reduction in plan.reductions:
            self.reductions[reduction.layer].append(reduction)

    def tiles(self, layer: Layer, planned: PlannedLayer, part: int) -> tuple[Tile, ...]:
        """Return a part's pieces of a layer; several are told apart by their rows."""
        mine = [owner for owner in planned.owners if owner.part == part]
        return tuple(self._tile(layer, owner, is_one=len(mine) == 1) for owner in mine)

    def _tile(self, layer: Layer, owner: Owner, *, is_one: bool) -> Tile:
        name = self.names(layer.name) if is_one else self.names(layer.name, "rows", *owner.rows)
        operands = [wanted(operand, layer.channels_read(operand, owner.filters)) for operand in layer.operands]
        return Tile(name, owner.filters, owner.rows, tuple(operands))

    def reads(self, layer: Layer, tiles: tuple[Tile, ...], part: int, run: int | None = None) -> list[str]:
        """Return the tensors that hold the operands of tiles: all, or those that one run of the calls reads."""
        names = set() if run is None else read_in_run(layer, run)
        return [
            variable
            for tile in tiles
            for operand, pieces in zip(layer.operands, tile.operands, strict=True)
            if run is None or operand.value in names
            for variable in self.parts[part].variables(pieces, tile.rows)
        ]

    def add_made(self, step: Step, layer: Layer, number: int) -> None:
        """Add the step that makes a part's tiles, enter them as held, and their transfers at the receivers."""
        part, results = self.parts[number], layer.results or (0,)
        makes = [(0, tile.held) for tile in step.tiles]
        if layer.results:
            (tile,) = step.tiles
            makes = [(r, Held(self.names(layer.name, r), tile.filters, tile.rows)) for r in results]
        for result, held in makes:
            part.hold(layer.name, result, held)
        sends = [
            self._transferred(layer, transfer, result)
            for transfer in self._transfers[layer.name]
            if transfer.source == number
            for result in results
        ]
        part.steps.append(replace(step, makes=tuple(held.variable for _, held in makes), sends=tuple(sends)))

    def _transferred(self, layer: Layer, transfer: Transfer, result: int) -> Sent:
        """Enter a transfer at its receiver; several between the same two parts are told apart by their rows."""
        pair = (transfer.source, transfer.target)
        is_one = sum((t.source, t.target) == pair for t in self._transfers[layer.name]) == 1
        words = [result] if layer.results else []
        name = self.names(layer.name, *words) if is_one else self.names(layer.name, *words, "rows", *transfer.rows)
        kind, rows = output_type(layer, result, transfer.filters, transfer.rows)
        message, variable = self.message(name, *pair, kind, rows, learns=transfer.learns)
        self.parts[transfer.target].hold(layer.name, result, Held(variable, transfer.filters, transfer.rows))
        return Sent(message, transfer.filters, transfer.rows, result)

    def message(
        self,
        name: str,
        source: int,
        target: int,
        kind: TensorType,
        rows: Range | None = None,
        *,
        learns: bool = True,
        planned: bool = True,
    ) -> tuple[Message, str]:
        """Enter a message at its receiver; return it with what it is called there."""
        message = Message(
            len(self.messages), name, source, target, kind.shape, kind.dtype, rows, learns=learns, planned=planned
        )
        variable = self.names(name, "from", source)
        self.messages.append(message)
        self.parts[target].received[variable] = message
        return message, variable


def output_type(layer: Layer, result: int, filters: Ranges, rows: Range) -> tuple[TensorType, Range | None]:
    """Return the type of filters by rows of a layer's result, and the rows where dimension 0 follows them."""
    made = layer.makes[layer.results.index(result) if layer.results else 0]
    shape = list(made.shape)
    if layer.rule is not Rule.WHOLE and len(shape) > layer.channel_axis:
        shape[layer.channel_axis] = count(filters) * layer.width
    if not (shape and shape[0] == Rows()):
        return TensorType(tuple(shape), made.dtype), None
    return TensorType((rows[1] - rows[0], *shape[1:]), made.dtype), rows


def partial_type(layer: Layer, filters: Ranges, rows: Range) -> tuple[TensorType, Range]:
    """Return the type of partial sums of filters."""
    anchor = layer.calls[layer.num_anchor_calls - 1]
    return TensorType((rows[1] - rows[0], count(filters), *anchor.shape[2:]), anchor.dtype), rows


def statistics_type(layer: Layer, run: int, filters: Ranges) -> TensorType:
    """Return the type of what parts tell each other about the norm after a run: two numbers per channel."""
    return TensorType((2, count(filters) * norm_width(layer, run)), runs(layer)[run + 1][0].dtype)
