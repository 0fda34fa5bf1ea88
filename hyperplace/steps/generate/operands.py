"""The tensors a layer reads, put together from what its part holds: slices, joined, in the shape the layer wants."""

from hyperplace.steps.generate.holdings import Slice, Wanted, pick
from hyperplace.steps.generate.lower import PartSteps
from hyperplace.steps.generate.text import joined
from hyperplace.values.graph import Graph, Layer, Operand, Rule


class Operands:
    """Write the operands of one part's layers."""

    def __init__(self, graph: Graph, part: PartSteps) -> None:
        self._graph, self._part = graph, part

    def text(self, operand: Operand, wanted: tuple[Wanted, ...]) -> str:
        """Return an expression for the wanted channels of an operand."""
        return joined([text for piece in wanted for text in self._piece(operand, piece)])

    def _piece(self, operand: Operand, piece: Wanted) -> list[str]:
        layer = self._graph[piece.layer]
        slices = pick(piece.layer, (piece.filters,), self._part.held[piece.layer][piece.result])
        if layer.rule is Rule.WHOLE:
            return [self._whole(layer, operand, piece, slices[0].variable)]
        width = layer.shape[1] // layer.num_filters if len(layer.shape) > 1 else 1
        texts = [slice_text(one, width) for one in slices]
        if piece.width == width and operand.shape[2:] == layer.shape[2:] and not piece.is_trimmed:
            return texts
        if piece.is_trimmed:
            start, stop = piece.trim
            channels = (piece.filters[1] - piece.filters[0]) * piece.width
            return [f"{joined(texts)}.reshape(-1, {_sizes(channels, operand)})[:, {start}:{stop}]"]
        return [
            f"{text}.reshape(-1, {_sizes((one.stop - one.start) * piece.width, operand)})"
            for text, one in zip(texts, slices, strict=True)
        ]

    def _whole(self, layer: Layer, operand: Operand, piece: Wanted, variable: str) -> str:
        """Return a result of a layer placed whole, under the shape its reader wants."""
        if len(operand.shape) < 2 or operand.shape[0] != self._graph.rows:
            return variable
        is_same = not layer.results and layer.shape[2:] == operand.shape[2:] and layer.shape[1] == piece.width
        text = variable if is_same else f"{variable}.reshape(-1, {_sizes(piece.width, operand)})"
        return f"{text}[:, {piece.trim[0]}:{piece.trim[1]}]" if piece.is_trimmed else text


def slice_text(one: Slice, width: int) -> str:
    """Return the slice of a tensor with so many channels per filter."""
    return one.variable if one.is_all else f"{one.variable}[:, {one.start * width}:{one.stop * width}]"


def _sizes(channels: int, operand: Operand) -> str:
    return ", ".join(map(str, (channels, *operand.shape[2:])))
