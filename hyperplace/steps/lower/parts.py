"""From the steps of one part to what it has and does: its pieces of the parameters, its segments and their code."""

from collections.abc import Sequence

from hyperplace.steps.lower.costs import Costs
from hyperplace.steps.lower.holdings import Held, pick
from hyperplace.steps.lower.layers import LayerText
from hyperplace.steps.lower.lowering import Lowering
from hyperplace.steps.lower.norms import norm_calls, norm_width
from hyperplace.steps.lower.operands import Operands, lines_text
from hyperplace.steps.lower.pieces import Entry, Pieces
from hyperplace.steps.lower.sharing import tied_owners
from hyperplace.steps.lower.steps import PartSteps, Run, Sent, Stage, Step, Tile, cut
from hyperplace.steps.lower.text import Lines, canonical, index_text
from hyperplace.values.graph import Layer, Rule
from hyperplace.values.plan import Owner, Ranges
from hyperplace.values.program import Feed, Keep, Method, Output, PartProgram, Receive, Segment, Send
from hyperplace.values.ranges import count

LONGEST = 70  # letters about filters and rows in a note


class PartWriter:
    """Write down one part."""

    def __init__(self, lowering: Lowering, part: PartSteps, costs: Costs) -> None:
        self._graph, self._plan, self._names = lowering.graph, lowering.plan, lowering.names
        self._part, self._sharings, self._costs = part, lowering.sharings, costs
        self._all_rows = lowering.all_rows
        self._pieces = Pieces(part.part, self._sharings, tied_owners(self._graph, self._plan))

    def part(self) -> PartProgram:
        runs = cut(self._part)
        methods = [self._method(run) for run in runs]  # which finds the pieces
        pieces = self._pieces.of.values()
        weights = {p.attribute: p.piece for p in pieces if p.parameter.trained}
        updated: set[str] = set()
        segments = []
        for number, (run, (method, used)) in enumerate(zip(runs, methods, strict=True)):
            mine = tuple(name for name in weights if name in used)
            segments.append(self._segment(number, run, method, mine, set(mine) - updated))
            updated |= set(mine)
        return PartProgram(
            weights,
            {p.attribute: p.piece for p in pieces if not p.parameter.trained},
            tuple(segments),
            {layer: self._owned(layer) for layer in dict.fromkeys(p.layer for p in pieces)},
        )

    def _segment(self, number: int, run: Run, method: Method, weights: tuple[str, ...], fresh: set[str]) -> Segment:
        work = self._costs.passes(run.steps)
        entries = {entry.attribute: entry for entry in self._pieces.of.values()}
        joined = [entries[name] for name in weights if len(self._groups(entries[name].layer)) > 1]
        joining = sum(self._costs.joining(entry.layer, entry.piece) for entry in joined)
        updates = [self._update(entries[name]) for name in weights if name in fresh]
        return Segment(
            f"segment_{number}",
            tuple(self._taken(variable, run) for variable in run.takes),
            (*map(Keep, run.keeps), *self._gives(run)),
            tuple(dict.fromkeys(step.layer for step in run.steps if step.layer)),
            weights,
            forward=self._costs.rounded(work.forward + joining),
            backward=self._costs.rounded(work.backward),
            update=self._costs.rounded(sum(updates)),
            half_rows=self._costs.half_rows(run.steps),
            saved_bytes=self._costs.saved_bytes(run.steps),
            kept_bytes=self._costs.kept_bytes(run.steps, run.keeps),
            largest_bytes=self._costs.largest_bytes(run.steps),
            method=method,
        )

    def _groups(self, layer: str) -> tuple[tuple[int, Ranges], ...]:
        """Return the part's filters of a layer by the owner of their weights, where these have copies."""
        return self._sharings[layer].groups(self._part.part) if layer in self._sharings else ()

    def _update(self, entry: Entry) -> float:
        """Return the work of updating a piece, and of lending it to as many parts as have copies of its filters."""
        part, owned = self._part.part, dict(self._groups(entry.layer)).get(self._part.part)
        if not owned:
            return self._costs.update(entry.layer, entry.piece)
        copies = [r.filters for r in self._sharings[entry.layer].replicas if r.owner == part]
        return self._costs.update(entry.layer, entry.piece, sum(map(count, copies)) / count(owned))

    def _taken(self, variable: str, run: Run) -> Feed | Receive | Keep:
        for step in run.steps:
            for tile in step.tiles if step.stage is Stage.INPUT else ():
                if tile.variable == variable:
                    return self._fed(step.layer, tile)
        message = self._part.received.get(variable)
        return Receive(message.number) if message else Keep(variable)

    def _fed(self, layer: str, tile: Tile) -> Feed:
        inputs = [layer.name for layer in self._graph.layers if layer.rule is Rule.INPUT]
        return Feed(inputs.index(layer), index_text(tile.filters), None if tile.rows == self._all_rows else tile.rows)

    def _gives(self, run: Run) -> list[Send | Output]:
        sends = [Send(message.number) for message in run.messages]
        outputs = [Output(n) for step in run.steps if not step.layer for n in range(len(step.makes))]
        return [*sends, *outputs]

    def _method(self, run: Run) -> tuple[Method, set[str]]:
        """Return the code of a run of steps, and the pieces of parameters it uses."""
        self._pieces.used.clear()
        lines, sent = Lines(), []
        for step in run.steps:
            self._write(step, lines)
            sent += [self._sent(step, one) for one in step.sends]
        outputs = [v for step in run.steps if not step.layer for v in step.makes]
        results = canonical([*run.keeps, *sent, *outputs])
        return Method(run.takes, lines.steps, results), set(self._pieces.used)

    def _write(self, step: Step, lines: Lines) -> None:
        if step.stage is Stage.INPUT:
            return
        if step.stage is Stage.OUTPUT:
            if step.makes:
                lines.begin("", "outputs")
            for variable, operand, wanted in zip(step.makes, self._graph.outputs, step.operands, strict=False):
                lines.let(variable, Operands(self._graph, self._part).text(operand, wanted, self._all_rows))
            return
        layer = self._graph[step.layer]
        text = LayerText(self._graph, layer, self._part, self._pieces, self._names, all_rows=self._all_rows)
        lines.begin(layer.name, self._note(layer, step))
        match step.stage:
            case Stage.COMPUTE if layer.name in self._sharings and norm_calls(layer):
                text.compute_run(step, self._sharings[layer.name], lines)
            case Stage.COMPUTE:
                text.compute(step, lines)
            case Stage.TOTAL:
                text.total(step, self._sharings[layer.name], lines)
            case Stage.PARTIAL:
                text.partial(step, lines)
            case Stage.FINISH:
                text.finish(step, lines)

    def _note(self, layer: Layer, step: Step) -> str:
        """Say what a step makes of its layer."""
        if step.stage is Stage.TOTAL:
            return "statistics of all rows"
        if step.stage is Stage.PARTIAL:
            return "partial sums"
        since = "from the batch norm on, " if step.run else ""
        reduced = "reduction of " if step.stage is Stage.FINISH else ""
        return since + reduced + self._cells(layer, step.tiles)

    def _owned(self, name: str) -> str:
        planned = self._plan.layers[self._graph.index_of[name]]
        mine = [owner for owner in planned.owners if owner.part == self._part.part]
        return self._cells(self._graph[name], mine) if mine else "kernels for other parts' filters"

    def _cells(self, layer: Layer, pieces: Sequence[Owner | Tile]) -> str:
        """Say which filters are meant, and which rows if not all."""
        batch, texts = self._plan.settings.batch, []
        for piece in pieces:
            rows = "" if piece.rows == self._all_rows else f", rows {index_text((piece.rows,))} of {batch}"
            texts.append(_filters(layer, piece.filters) + rows)
        text = ", and ".join(texts)
        return text if len(text) <= LONGEST else f"{len(texts)} pieces of {layer.num_filters} filters by {batch} rows"

    def _sent(self, step: Step, sent: Sent) -> str:
        """Return the expression of what a message carries."""
        layer, width = self._graph[step.layer], 1
        if step.stage is Stage.PARTIAL:
            held = [Held(v, shard.filters, shard.rows) for v, shard in zip(step.makes, step.shards, strict=True)]
        elif self._is_statistics(step):
            own = {Stage.COMPUTE: self._part.statistics, Stage.TOTAL: self._part.totals}[step.stage]
            held = [h for h in own[layer.name, step.run] if h.variable not in self._part.received]
            width = norm_width(layer, step.run)
        else:
            held, width = self._part.own(step.layer, sent.result), layer.width
        return lines_text(pick(step.layer, sent.filters, sent.rows, held), width)

    def _is_statistics(self, step: Step) -> bool:
        """Say whether a step sends statistics, and not what it makes of its layer."""
        layer = self._graph[step.layer]
        if step.stage is Stage.OUTPUT or step.layer not in self._sharings:
            return False
        return step.stage is Stage.TOTAL or step.run < len(norm_calls(layer))


def _filters(layer: Layer, filters: Ranges) -> str:
    noun = "filter" if layer.num_filters == 1 else "filters"
    if filters == ((0, layer.num_filters),):
        return f"all {layer.num_filters} {noun}" if layer.num_filters > 1 else "whole"
    return f"filters {index_text(filters)} of {layer.num_filters}"
