"""The code of one layer on one part, in the steps it was lowered to."""

from dataclasses import replace

from hyperplace.steps.lower.calls import argument_names, arguments, call_text, op_name
from hyperplace.steps.lower.holdings import Slice, pick
from hyperplace.steps.lower.norms import carried, carried_name, read_in_run, runs
from hyperplace.steps.lower.normtext import NormText
from hyperplace.steps.lower.operands import Operands, slice_text
from hyperplace.steps.lower.pieces import Pieces
from hyperplace.steps.lower.sharing import Sharing
from hyperplace.steps.lower.steps import PartSteps, Step, Tile
from hyperplace.steps.lower.text import Lines, Names, joined
from hyperplace.steps.lower.tiles import TileText
from hyperplace.values.channels import kernel_axes
from hyperplace.values.graph import Graph, Layer, Ref
from hyperplace.values.plan import Range
from hyperplace.values.ranges import common, cut_at


class LayerText:
    """Write the steps of one layer on one part into the body of a method."""

    def __init__(
        self, graph: Graph, layer: Layer, part: PartSteps, pieces: Pieces, names: Names, *, all_rows: Range
    ) -> None:
        self._layer, self._part, self._all_rows = layer, part, all_rows
        self._pieces, self._names = pieces, names
        self._operands = Operands(graph, part)

    def compute(self, step: Step, lines: Lines) -> None:
        """Write the whole layer for the tiles of the step."""
        for number, tile in enumerate(step.tiles):
            text = self._tile(tile, is_first=number == 0)
            self._read_operands(text, tile, None, lines)
            if self._layer.result_values or self._layer.writes:
                text.write_region(step.makes, lines)
                continue
            text.write(self._layer.calls, step.makes if self._layer.results else (tile.variable,), lines)

    def compute_run(self, step: Step, sharing: Sharing, lines: Lines) -> None:
        """Write one run of a layer whose batch norms see the rows of several parts: from one norm to the next."""
        calls = runs(self._layer)
        norms = NormText(self._layer, self._part, sharing, self._pieces, self._names)
        if step.run:
            norms.track(calls[step.run][0], step.run - 1, lines)
        following = calls[step.run + 1][0] if step.run + 1 < len(calls) else None
        for number, tile in enumerate(step.tiles):
            text = self._tile(tile, is_first=number == 0)
            before = carried(self._layer, step.run - 1) if step.run else []
            text.values |= {value: carried_name(self._names, value, tile) for value in before}
            text.kept = {v: carried_name(self._names, v, tile) for v in carried(self._layer, step.run)}
            text.normed = lambda call, x, tile=tile: norms.normalised(call, x, tile, step.run - 1)
            self._read_operands(text, tile, read_in_run(self._layer, step.run), lines)
            text.write(calls[step.run], (tile.variable,), lines)
            if following:
                norms.write_statistics(step, tile, text.values[following.args[0].name], lines)
        if following:
            norms.write_own(step, following, lines)

    def total(self, step: Step, sharing: Sharing, lines: Lines) -> None:
        """Write the statistics of all rows of the filters whose weights the part owns."""
        norms = NormText(self._layer, self._part, sharing, self._pieces, self._names)
        norms.write_total(step, runs(self._layer)[step.run + 1][0], lines)

    def partial(self, step: Step, lines: Lines) -> None:
        """Write the partial sums: one dense call for each of the part's shards."""
        anchor = self._layer.calls[self._layer.num_anchor_calls - 1]
        (operand,) = self._layer.operands
        for variable, shard, wanted in zip(step.makes, step.shards, step.operands, strict=True):
            text = self._operands.text(operand, wanted, shard.rows)
            x = lines.shared(self._names(self._layer.name, "in"), text)
            groups = self._layer.groups_of(operand)
            cuts = kernel_axes(op_name(anchor)).cuts(shard.filters, shard.channels, groups)
            weight = self._pieces.text(self._layer, arguments(anchor)["weight"].name, cuts)
            changed = {argument_names(anchor)[0]: x, "weight": weight}
            changed |= {"bias": "None"} if "bias" in arguments(anchor) else {}
            changed |= {"groups": "1"} if self._layer.groups > 1 else {}
            lines.let(variable, call_text(anchor.op, anchor, lambda ref: ref.name, changed))

    def finish(self, step: Step, lines: Lines) -> None:
        """Write the sum of all partial sums, and the operations that follow."""
        (tile,) = step.tiles
        number = self._layer.num_anchor_calls
        anchor = self._layer.calls[number - 1]
        text = self._reduction(tile)
        bias = arguments(anchor).get("bias")
        if isinstance(bias, Ref):
            ones = ", 1" * (len(anchor.shape) - 2)
            piece = self._pieces.text(self._layer, bias.name, {0: tile.filters})
            text = f"{text} + {piece}.reshape(-1{ones})" if ones else f"{text} + {piece}"
        lines.let(tile.variable, text)
        rest = self._tile(tile, is_first=True)
        rest.values[anchor.value] = tile.variable
        rest.write(self._layer.calls[number:], (tile.variable,), lines)

    def _tile(self, tile: Tile, *, is_first: bool) -> TileText:
        rows = "self.num_rows" if tile.rows == self._all_rows else f"self.count({tile.rows[0]}, {tile.rows[1]})"
        return TileText(self._layer, tile.filters, self._pieces, self._names, is_first=is_first, num_rows=rows)

    def _read_operands(self, text: TileText, tile: Tile, only: set[str] | None, lines: Lines) -> None:
        """Give the operands variables, all or those of some names."""
        for number, (operand, wanted) in enumerate(zip(self._layer.operands, tile.operands, strict=True)):
            if only is None or operand.value in only:
                variable = self._names(self._layer.name, "in", *([number] if number else []))
                text.values[operand.value] = lines.shared(variable, self._operands.text(operand, wanted, tile.rows))

    def _reduction(self, tile: Tile) -> str:
        """Return the sum of the parts' partial sums; runs of filters with the same contributors are summed together."""
        held = self._part.partials[self._layer.name]
        sums: list[list[Slice]] = []
        for span in cut_at(tile.filters, {edge for h in held for run in h.filters for edge in run}):
            terms = [pick(self._layer.name, (span,), h.rows, [h])[0][0] for h in held if common((span,), h.filters)]
            last = sums[-1] if sums else []
            if [(t.variable, t.stop) for t in last] == [(t.variable, t.start) for t in terms]:
                sums[-1] = [replace(a, stop=b.stop) for a, b in zip(last, terms, strict=True)]
            else:
                sums.append(terms)
        return joined([" + ".join(slice_text(term, 1) for term in terms) for terms in sums])
