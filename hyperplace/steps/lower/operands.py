"""The tensors a layer reads, put together from what its part holds: slices, joined, in the shape the layer wants."""

from hyperplace.steps.lower.holdings import Line, Slice, Wanted, pick
from hyperplace.steps.lower.steps import PartSteps
from hyperplace.steps.lower.text import joined, stacked
from hyperplace.values.graph import Graph, Layer, Operand, Rule
from hyperplace.values.plan import Range


class Operands:
    """Write the operands of one part's layers."""

    def __init__(self, graph: Graph, part: PartSteps) -> None:
        self._graph, self._part = graph, part

    def text(self, operand: Operand, wanted: tuple[Wanted, ...], rows: Range) -> str:
        """Return an expression for the wanted channels and rows of an operand."""
        return joined([text for piece in wanted for text in self._piece(operand, piece, rows)])

    def _piece(self, operand: Operand, piece: Wanted, rows: Range) -> list[str]:
        layer = self._graph[piece.layer]
        lines = pick(piece.layer, (piece.filters,), rows, self._part.held[piece.layer][piece.result])
        if layer.rule is Rule.WHOLE:
            return [self._whole(layer, operand, piece, lines_text(lines, 1))]
        width = layer.width
        is_plain = piece.width == width and operand.shape[2:] == layer.shape[2:]
        if piece.is_trimmed:
            start, stop = piece.trim
            channels = (piece.filters[1] - piece.filters[0]) * piece.width
            return [f"{lines_text(lines, width)}.reshape(-1, {_sizes(channels, operand)})[:, {start}:{stop}]"]
        if len(lines) > 1:
            channels = (piece.filters[1] - piece.filters[0]) * piece.width
            text = lines_text(lines, width)
            return [text if is_plain else f"{text}.reshape(-1, {_sizes(channels, operand)})"]
        texts = [slice_text(one, width) for one in lines[0]]
        if is_plain:
            return texts
        return [
            f"{text}.reshape(-1, {_sizes((one.stop - one.start) * piece.width, operand)})"
            for text, one in zip(texts, lines[0], strict=True)
        ]

    def _whole(self, layer: Layer, operand: Operand, piece: Wanted, text: str) -> str:
        """Return a result of a layer placed whole, under the shape its reader wants."""
        if not operand.has_rows:
            return text
        is_same = not layer.results and layer.shape[2:] == operand.shape[2:] and layer.shape[1] == piece.width
        text = text if is_same else f"{text}.reshape(-1, {_sizes(piece.width, operand)})"
        return f"{text}[:, {piece.trim[0]}:{piece.trim[1]}]" if piece.is_trimmed else text


def lines_text(lines: tuple[Line, ...], width: int) -> str:
    """Return lines of slices as one tensor."""
    return stacked([joined([slice_text(one, width) for one in line]) for line in lines])


def slice_text(one: Slice, width: int) -> str:
    """Return the slice of a tensor with so many channels per filter."""
    channels = "" if one.has_all_filters else f"{one.start * width}:{one.stop * width}"
    if one.has_all_rows:
        return f"{one.variable}[:, {channels}]" if channels else one.variable
    of = f", of={one.of[0]}" if one.of[0] else ""
    rows = f"self.rows({one.rows[0]}, {one.rows[1]}{of})"
    return f"{one.variable}[{rows}, {channels}]" if channels else f"{one.variable}[{rows}]"


def _sizes(channels: int, operand: Operand) -> str:
    return ", ".join(map(str, (channels, *operand.shape[2:])))
