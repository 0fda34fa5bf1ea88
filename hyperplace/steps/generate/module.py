"""A whole program as text: one class per part, one method per segment, and the tables of what they exchange."""

from collections.abc import Sequence
from typing import Any

from hyperplace.steps.generate.calls import constant_text
from hyperplace.steps.generate.holdings import Held, pick
from hyperplace.steps.generate.layers import LayerText
from hyperplace.steps.generate.names import Names, literal, words
from hyperplace.steps.generate.norms import norm_calls, norm_width
from hyperplace.steps.generate.operands import Operands, lines_text
from hyperplace.steps.generate.pieces import Piece, Pieces
from hyperplace.steps.generate.segments import Segment, cut
from hyperplace.steps.generate.sharing import sharings, tied_owners
from hyperplace.steps.generate.steps import Message, PartSteps, Sent, Stage, Step, Tile
from hyperplace.steps.generate.text import Lines, fold, index_text
from hyperplace.values.graph import Graph, Layer, Ref, Rule
from hyperplace.values.plan import Owner, Plan, Ranges
from hyperplace.values.ranges import count

LONGEST = 70  # letters about filters and rows in a comment
BYTES_WORK = 4  # what a byte of a kept map costs beside a FLOP, for the schedule only


def module_text(graph: Graph, plan: Plan, parts: list[PartSteps], names: Names) -> str:
    """Return the program."""
    classes = [_PartText(graph, plan, part, names).text() for part in parts]
    foot = _foot(graph, plan)
    uses_functional = any("F." in text for text in classes)
    tables = ["Copy"] * any(": Copy(" in text for text in classes)
    tables += ["Feed", "Keep", "Output", "Piece", "Receive", "Segment", "Send", *["Slot"] * ("Slot(" in foot)]
    return "\n\n\n".join([_head(plan, uses_functional, tables), *classes, foot]) + "\n"


def _head(plan: Plan, uses_functional: bool, tables: list[str]) -> str:
    settings, metrics = plan.settings, plan.metrics
    mib, when = metrics.judged_bytes / 2**20, "per mini-batch" if metrics.judges_training else "in the forward pass"
    return "\n".join(
        [
            f'"""{words(settings.model)} on {settings.k} parts, {settings.grain} grain, planned for batches of '
            f"{settings.batch} rows.",
            "",
            f"Parts exchange {mib:.1f} MiB {when}; the heaviest does {metrics.max_over_avg:.3f} times the",
            "average work. Each class below is one part: its slices of the parameters, a table of what it takes and",
            "gives in which order, and a method per segment (a run of layers that waits for nobody). Run it to train",
            "on made-up data (--help tells more), import PROGRAM to train on your own, or edit it: it is PyTorch.",
            '"""',
            "",
            "import torch",
            *(["import torch.nn.functional as F"] if uses_functional else []),
            "",
            "from hyperplace import runtime",
            f"from hyperplace.runtime import {', '.join(tables)}",
        ]
    )


def _foot(graph: Graph, plan: Plan) -> str:
    shapes = [f"{layer.shape[1:]!r}" for layer in graph.layers if layer.rule is Rule.INPUT]
    classes = _tuple([f"Part{part}" for part in range(plan.settings.k)])
    words = [
        literal(plan.settings.model),
        f"inputs={_tuple(shapes)}",
        f"parts={classes}",
        f"batch={plan.settings.batch}",
    ]
    if graph.takes != (tuple(Ref(str(number)) for number in range(len(shapes))), {}):
        words.append(f"takes={structure_text(graph.takes)}")
    if graph.returns != Ref("0"):
        words.append(f"returns={structure_text(graph.returns)}")
    if (graph.fewest_rows, graph.most_rows) != (1, None):
        words.append(f"rows=({graph.fewest_rows}, {graph.most_rows})")
    if not graph.evaluates:
        words.append("predicts=False")
    program = f"PROGRAM = runtime.Program({', '.join(words)})"
    return "\n".join([*fold(program), "", 'if __name__ == "__main__":', "    runtime.main(PROGRAM)"])


class _PartText:
    """Write the class of one part."""

    def __init__(self, graph: Graph, plan: Plan, part: PartSteps, names: Names) -> None:
        self._graph, self._plan, self._part, self._names = graph, plan, part, names
        self._sharings = sharings(plan)
        self._pieces = Pieces(part.part, self._sharings, tied_owners(graph, plan))

    def text(self) -> str:
        segments = cut(self._part)
        bodies = [self._method(number, segment) for number, segment in enumerate(segments)]
        table = [self._row(number, segment) for number, segment in enumerate(segments)]
        lines = [f"class Part{self._part.part}(runtime.Part):", *_indented([self._doc(), ""])]
        lines += _indented(self._piece_table())
        lines += _indented(["segments = (", *(line for row in table for line in fold(f"{row},", 4)), ")"])
        for body in bodies:
            lines += ["", *_indented(body)]
        return "\n".join(lines)

    def _doc(self) -> str:
        k, metrics = self._plan.settings.k, self._plan.metrics
        mine = metrics.parts[self._part.part]
        share = mine.work / metrics.total_work if metrics.total_work else 0.0
        held = f"{mine.parameter_bytes / 2**20:.1f} MiB of parameters"
        return f'"""Part {self._part.part} of {k}: {share:.1%} of the work, {held}."""'

    def _piece_table(self) -> list[str]:
        """Return the dictionaries of parameters and buffers, with a comment wherever another layer begins."""
        lines = []
        for name, trained in (("weights", True), ("buffers", False)):
            chosen = [p for p in self._pieces.of.values() if p.parameter.trained is trained]
            if not chosen:
                continue
            lines.append(f"{name} = {{")
            layer = ""
            for piece in chosen:
                if piece.layer != layer:
                    layer = piece.layer
                    lines.append(f"    # {words(layer)}{self._owned(layer)}")
                lines += fold(f'"{piece.attribute}": {_piece(piece)},', 4)
            lines += ["}", ""]
        return lines

    def _owned(self, name: str) -> str:
        layer = self._graph[name]
        planned = self._plan.layers[self._graph.index_of[name]]
        mine = [owner for owner in planned.owners if owner.part == self._part.part]
        if not mine:
            return ": kernels for other parts' filters"
        return f": {self._cells(layer, mine)}"

    def _cells(self, layer: Layer, pieces: Sequence[Owner | Tile]) -> str:
        """Say which filters are meant, and which rows if not all."""
        batch, texts = self._plan.settings.batch, []
        for piece in pieces:
            rows = "" if piece.rows == (0, batch) else f", rows {index_text((piece.rows,))} of {batch}"
            texts.append(_filters(layer, piece.filters) + rows)
        text = ", and ".join(texts)
        return text if len(text) <= LONGEST else f"{len(texts)} pieces of {layer.num_filters} filters by {batch} rows"

    def _row(self, number: int, segment: Segment) -> str:
        """Return a segment's entry in the table."""
        takes = _tuple([self._taken(variable, segment) for variable in segment.takes])
        work = sum(self._work(step) for step in segment.steps)
        layers = _tuple([literal(name) for name in dict.fromkeys(s.layer for s in segment.steps if s.layer)])
        gives = _tuple(self._given(segment))
        return f'Segment("segment_{number}", takes={takes}, gives={gives}, layers={layers}, work={work})'

    def _taken(self, variable: str, segment: Segment) -> str:
        for step in segment.steps:
            for tile in step.tiles if step.stage is Stage.INPUT else ():
                if tile.variable == variable:
                    return self._fed(step.layer, tile)
        message = self._part.received.get(variable)
        if message:
            return f'Receive("{message.name}", source={message.source}{_flags(message)})'
        return f'Keep("{variable}")'

    def _fed(self, layer: str, tile: Tile) -> str:
        inputs = [layer.name for layer in self._graph.layers if layer.rule is Rule.INPUT]
        rows = "" if tile.rows == (0, self._plan.settings.batch) else f", rows={tile.rows}"
        return f'Feed({inputs.index(layer)}, "{index_text(tile.filters)}"{rows})'

    def _given(self, segment: Segment) -> list[str]:
        keeps = [f'Keep("{variable}")' for variable in segment.keeps]
        sends = [f'Send("{m.name}", target={m.target}{_flags(m)})' for m in segment.messages]
        outputs = [f"Output({n})" for step in segment.steps if not step.layer for n in range(len(step.makes))]
        return [*keeps, *sends, *outputs]

    def _method(self, number: int, segment: Segment) -> list[str]:
        lines, sent = Lines(), []
        for step in segment.steps:
            self._write(step, lines)
            sent += [self._sent(step, one) for one in step.sends]
        outputs = [v for step in segment.steps if not step.layer for v in step.makes]
        gives = [*segment.keeps, *sent, *outputs]
        head = fold(f"def segment_{number}({', '.join(['self', *segment.takes])}):", 0)
        tail = fold(f"return {_tuple(gives)}", 4)
        return [*head, *_indented(lines.lines), *tail]

    def _write(self, step: Step, lines: Lines) -> None:
        if step.stage is Stage.OUTPUT:
            for variable, operand, wanted in zip(step.makes, self._graph.outputs, step.operands, strict=False):
                rows = (0, self._plan.settings.batch)
                lines.let(variable, Operands(self._graph, self._part).text(operand, wanted, rows))
            return
        layer = self._graph[step.layer]
        if step.stage is Stage.INPUT:
            return
        text = LayerText(
            self._graph, layer, self._part, self._pieces, self._names, all_rows=(0, self._plan.settings.batch)
        )
        match step.stage:
            case Stage.COMPUTE:
                lines.comment(f"{words(layer.name)}: {self._made(layer, step)}")
                if layer.name in self._sharings and norm_calls(layer):
                    text.compute_run(step, self._sharings[layer.name], lines)
                else:
                    text.compute(step, lines)
            case Stage.TOTAL:
                lines.comment(f"{words(layer.name)}: statistics of all rows")
                text.total(step, self._sharings[layer.name], lines)
            case Stage.PARTIAL:
                lines.comment(f"{words(layer.name)}: partial sums")
                text.partial(step, lines)
            case Stage.FINISH:
                lines.comment(f"{words(layer.name)}: reduction of {self._made(layer, step)}")
                text.finish(step, lines)

    def _made(self, layer: Layer, step: Step) -> str:
        """Say what a step makes, and from where on."""
        since = "from the batch norm on, " if step.run else ""
        return since + self._cells(layer, step.tiles)

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
            held = self._part.own(step.layer, sent.result)
            if len(layer.shape) > 1 and layer.rule is not Rule.WHOLE:
                width = layer.shape[1] // layer.num_filters
        return lines_text(pick(step.layer, sent.filters, sent.rows, held), width)

    def _is_statistics(self, step: Step) -> bool:
        """Say whether a step sends statistics, and not what it makes of its layer."""
        layer = self._graph[step.layer]
        if step.stage is Stage.OUTPUT or step.layer not in self._sharings:
            return False
        return step.stage is Stage.TOTAL or step.run < len(norm_calls(layer))

    def _work(self, step: Step) -> int:
        """Return a guess of the FLOPs of a step, forward and backward, from which a schedule is made."""
        if step.stage in (Stage.INPUT, Stage.TOTAL, Stage.OUTPUT):
            return 0
        layer, batch = self._graph[step.layer], self._plan.settings.batch
        kernels = layer.num_filters * (layer.operands[0].num_channels // layer.groups)
        area = sum(count(shard.filters) * count(shard.channels) for shard in step.shards)
        cells = sum(count(tile.filters) * count((tile.rows,)) for tile in step.tiles)
        share = area / kernels if step.shards else cells / (layer.num_filters * batch)
        macs = 0 if step.stage is Stage.FINISH or step.run else 6 * layer.macs
        maps = layer.num_filters * layer.saved_bytes * BYTES_WORK
        return round(share * batch * (macs + (maps if step.stage is not Stage.PARTIAL else 0)))


def _piece(piece: Piece) -> str:
    index = f', "{piece.index}"' if piece.index else ""
    words = f"{literal(piece.parameter.name)}, {piece.parameter.shape!r}{index}"
    return f"Piece({words})" if piece.owner is None else f"Copy({words}, owner={piece.owner})"


def _filters(layer: Layer, filters: Ranges) -> str:
    noun = "filter" if layer.num_filters == 1 else "filters"
    if filters == ((0, layer.num_filters),):
        return f"all {layer.num_filters} {noun}" if layer.num_filters > 1 else "whole"
    return f"filters {index_text(filters)} of {layer.num_filters}"


def structure_text(value: Any) -> str:
    """Return what a model takes or returns as Python, with a Slot for every tensor."""
    if isinstance(value, Ref):
        return f"Slot({value.name})"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_plain(key)}: {structure_text(one)}" for key, one in value.items()) + "}"
    if isinstance(value, tuple):
        return _tuple([structure_text(one) for one in value])
    if isinstance(value, list):
        return f"[{', '.join(map(structure_text, value))}]"
    return _plain(value)


def _plain(value: Any) -> str:
    return literal(value) if isinstance(value, str) else constant_text(value, str)


def _tuple(texts: list[str]) -> str:
    return f"({', '.join(texts)}{',' if len(texts) == 1 else ''})"


def _flags(message: Message) -> str:
    return ("" if message.learns else ", learns=False") + ("" if message.is_planned else ", planned=False")


def _indented(lines: list[str]) -> list[str]:
    return [f"    {line}" if line else "" for line in lines]
