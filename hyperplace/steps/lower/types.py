"""The shapes and dtypes of what parts send each other."""

from hyperplace.steps.lower.norms import norm_width, runs
from hyperplace.values.graph import Layer, Rows, Rule, TensorType
from hyperplace.values.plan import Range, Ranges
from hyperplace.values.ranges import count


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
