"""What each part does, step by step: which tensors it reads, makes, sends and receives, in the order of the layers.

A layer that its owners compute alone is one step on each of them. A layer whose kernels are spread (fine grain) is two:
partial sums wherever there are kernels, then the reduction and the trailing operations at the owners. The loss sees the
model's outputs on one part; what other parts own of them is sent there, which no plan counts: it belongs to the caller.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import IntEnum

from hyperplace.steps.generate.holdings import Held, Wanted, common, count, pick, ranges_of, wanted
from hyperplace.steps.generate.names import Names
from hyperplace.values.graph import Graph, Layer, Reads, Rule
from hyperplace.values.plan import Plan, PlannedLayer, Range, Ranges, Reduction, Shard, Transfer


class Stage(IntEnum):
    """The kinds of steps, in the order of one layer's."""

    INPUT = 0
    COMPUTE = 1
    PARTIAL = 2
    FINISH = 3
    OUTPUT = 4


@dataclass(frozen=True)
class Message:
    """One tensor from part to part; `variable` is what the receiver calls it."""

    name: str
    source: int
    target: int
    variable: str
    learns: bool  # its gradient comes back
    is_planned: bool = True


@dataclass(frozen=True)
class Step:
    """One stage of one layer on one part; filters are those it makes, operands what it reads for them."""

    layer: str
    stage: Stage
    filters: Ranges = ()
    shards: tuple[Shard, ...] = ()
    operands: tuple[tuple[Wanted, ...], ...] = ()
    reads: tuple[str, ...] = ()
    makes: tuple[str, ...] = ()
    sends: tuple[tuple[Message, Ranges, int], ...] = ()  # with the filters, and which result of several


@dataclass
class PartSteps:
    """The steps of one part, with what it holds of every layer and what it receives."""

    part: int
    steps: list[Step] = field(default_factory=list)
    held: dict[str, dict[int, list[Held]]] = field(default_factory=dict)  # by layer and result
    partials: dict[str, list[Held]] = field(default_factory=dict)
    received: dict[str, Message] = field(default_factory=dict)  # by variable

    def variables(self, pieces: tuple[Wanted, ...]) -> Iterator[str]:
        """Yield the tensors that hold the wanted filters; of a layer with several results all, as they travel."""
        for piece in pieces:
            for held in self.held.get(piece.layer, {0: []}).values():
                yield from (found.variable for found in pick(piece.layer, (piece.filters,), held))

    def hold(self, layer: str, result: int, held: Held) -> None:
        self.held.setdefault(layer, {}).setdefault(result, []).append(held)


def lower(graph: Graph, plan: Plan, names: Names) -> list[PartSteps]:
    """Return the steps of every part."""
    return _Lowering(graph, plan, names).parts()


def is_spread(layer: Layer, planned: PlannedLayer) -> bool:
    """Say whether some filter's kernels are not all where the filter is owned."""
    if not layer.sums_channels:
        return False
    return {(owner.part, owner.filters) for owner in planned.owners} != {
        (shard.part, shard.filters) for shard in planned.shards if _is_complete(layer, shard)
    }


def _is_complete(layer: Layer, shard: Shard) -> bool:
    return shard.channels == channels_read(layer, 0, shard.filters)


def channels_read(layer: Layer, operand: int, filters: Ranges) -> Ranges:
    """Return the channels of an operand that the filters read, as sorted ranges apart from each other."""
    reads = layer.operands[operand]
    if reads.reads is Reads.SAME:
        return filters
    if reads.reads is Reads.ALL:
        return ((0, reads.num_channels),)
    joined: list[Range] = []
    for start, stop in sorted({layer.channels_read(reads, *span) for span in filters}):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(stop, joined[-1][1]))
        else:
            joined.append((start, stop))
    return tuple(joined)


class _Lowering:
    """The steps of all parts, built layer by layer."""

    def __init__(self, graph: Graph, plan: Plan, names: Names) -> None:
        self._graph, self._plan, self._names = graph, plan, names
        self._parts = [PartSteps(part) for part in range(plan.settings.k)]
        self._transfers: dict[str, list[Transfer]] = {layer.name: [] for layer in graph.layers}
        self._reductions: dict[str, list[Reduction]] = {layer.name: [] for layer in graph.layers}
        for transfer in plan.transfers:
            self._transfers[transfer.layer].append(transfer)
        for reduction in plan.reductions:
            self._reductions[reduction.layer].append(reduction)

    def parts(self) -> list[PartSteps]:
        for layer, planned in zip(self._graph.layers, self._plan.layers, strict=True):
            if layer.rule is Rule.INPUT:
                self._add_owned(layer, planned, Stage.INPUT)
            elif is_spread(layer, planned):
                self._add_partials(layer, planned)
                self._add_owned(layer, planned, Stage.FINISH)
            else:
                self._add_owned(layer, planned, Stage.COMPUTE)
        self._add_outputs()
        return self._parts

    def _add_owned(self, layer: Layer, planned: PlannedLayer, stage: Stage) -> None:
        """Add the step of every owner, and the transfers of what it makes."""
        results = layer.results or (0,)
        for owner in planned.owners:
            part = self._parts[owner.part]
            operands = self._operands(layer, owner.filters) if stage is Stage.COMPUTE else ()
            reads = [v for pieces in operands for v in part.variables(pieces)]
            if stage is Stage.FINISH:
                reads = [held.variable for held in part.partials[layer.name] if common(held.filters, owner.filters)]
            makes = {result: self._names(layer.name, *([result] if layer.results else [])) for result in results}
            sends = tuple(
                (self._message(layer, transfer, makes[result], result), transfer.filters, result)
                for transfer in self._transfers[layer.name]
                if transfer.source == owner.part
                for result in results
            )
            for result, variable in makes.items():
                part.hold(layer.name, result, Held(variable, owner.filters))
            step = Step(
                layer.name,
                stage,
                owner.filters,
                operands=operands,
                reads=tuple(dict.fromkeys(reads)),
                makes=tuple(makes.values()),
                sends=sends,
            )
            part.steps.append(step)

    def _operands(self, layer: Layer, filters: Ranges) -> tuple[tuple[Wanted, ...], ...]:
        return tuple(
            wanted(operand, channels_read(layer, number, filters)) for number, operand in enumerate(layer.operands)
        )

    def _message(self, layer: Layer, message: Transfer | Reduction, name: str, result: int) -> Message:
        """Enter a message at its receiver."""
        variable = self._names(name, "from", message.source)
        sent = Message(name, message.source, message.target, variable, message.learns)
        target = self._parts[message.target]
        target.received[variable] = sent
        held = Held(variable, message.filters)
        if isinstance(message, Reduction):
            target.partials.setdefault(layer.name, []).append(held)
        else:
            target.hold(layer.name, result, held)
        return sent

    def _add_partials(self, layer: Layer, planned: PlannedLayer) -> None:
        """Add the step of every part that has kernels of the layer, and the partial sums it sends."""
        name = self._names(layer.name, "partial")
        for number in sorted({shard.part for shard in planned.shards}):
            part = self._parts[number]
            shards = tuple(shard for shard in planned.shards if shard.part == number)
            operands = tuple(wanted(layer.operands[0], shard.channels) for shard in shards)
            makes = [self._names(layer.name, "partial", i) for i in range(len(shards))] if len(shards) > 1 else [name]
            own = [Held(variable, shard.filters) for variable, shard in zip(makes, shards, strict=True)]
            part.partials[layer.name] = own + part.partials.get(layer.name, [])
            sends = tuple(
                (self._message(layer, reduction, name, 0), reduction.filters, 0)
                for reduction in self._reductions[layer.name]
                if reduction.source == number
            )
            reads = dict.fromkeys(v for pieces in operands for v in part.variables(pieces))
            part.steps.append(Step(layer.name, Stage.PARTIAL, (), shards, operands, tuple(reads), tuple(makes), sends))

    def _add_outputs(self) -> None:
        """Add the step that puts the model's outputs together on the part that owns most of them."""
        operands = tuple(wanted(operand, ((0, operand.num_channels),)) for operand in self._graph.outputs)
        target = self._loss_part(operands)
        needs: dict[tuple[str, int], set[int]] = {}
        for piece in (piece for pieces in operands for piece in pieces):
            needs.setdefault((piece.layer, piece.result), set()).update(range(*piece.filters))
        for (layer, result), filters in needs.items():
            self._send_outputs(self._graph[layer], result, filters, target)
        part = self._parts[target]
        reads = dict.fromkeys(v for pieces in operands for v in part.variables(pieces))
        makes = tuple(self._names("output", number) for number in range(len(operands)))
        part.steps.append(Step("", Stage.OUTPUT, operands=operands, reads=tuple(reads), makes=makes))

    def _send_outputs(self, layer: Layer, result: int, filters: set[int], target: int) -> None:
        """Send what other parts own of an output, unless it is there already because a layer reads it."""
        here = self._parts[target].held.get(layer.name, {}).get(result, [])
        missing = ranges_of(filters - {f for held in here for span in held.filters for f in range(*span)})
        for owner in self._plan.layers[self._graph.index_of[layer.name]].owners:
            mine = common(owner.filters, missing)
            if owner.part == target or not mine:
                continue
            source = self._parts[owner.part]
            variable = next(h.variable for h in source.held[layer.name][result] if h.filters == owner.filters)
            name = self._names(variable, "output")
            received = self._names(name, "from", owner.part)
            message = Message(name, owner.part, target, received, layer.name in self._graph.learning, is_planned=False)
            self._parts[target].received[received] = message
            self._parts[target].hold(layer.name, result, Held(received, mine))
            source.steps.append(
                Step(layer.name, Stage.OUTPUT, mine, reads=(variable,), sends=((message, mine, result),))
            )

    def _loss_part(self, operands: tuple[tuple[Wanted, ...], ...]) -> int:
        owned = [0] * self._plan.settings.k
        for piece in (piece for pieces in operands for piece in pieces):
            planned = self._plan.layers[self._graph.index_of[piece.layer]]
            for owner in planned.owners:
                owned[owner.part] += count(owner.filters)
        return owned.index(max(owned))
