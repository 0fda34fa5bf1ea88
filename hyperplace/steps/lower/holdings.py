"""What tensors a part has at hand, and how to put together the channels and rows it wants from them."""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from hyperplace.errors import UsageError
from hyperplace.values.graph import Operand
from hyperplace.values.plan import Range, Ranges
from hyperplace.values.ranges import count


@dataclass(frozen=True)
class Held:
    """A tensor: these filters of a layer side by side in dimension 1, of these rows of the batch."""

    variable: str
    filters: Ranges
    rows: Range


@dataclass(frozen=True)
class Slice:
    """Filters start..stop of a held tensor, counted from its own first, and some of its rows."""

    variable: str
    start: int
    stop: int
    size: int  # how many filters the tensor has
    rows: Range
    of: Range  # the rows the tensor has

    @property
    def has_all_filters(self) -> bool:
        return self.stop - self.start == self.size

    @property
    def has_all_rows(self) -> bool:
        return self.rows == self.of


Line = tuple[Slice, ...]  # side by side in dimension 1, all of the same rows


@dataclass(frozen=True)
class Wanted:
    """Channels start..stop of one source of an operand, counted from the source's first, as filters of its layer.

    The filters are the fewest that hold the channels; a cut through a flattened filter leaves some over.
    """

    layer: str
    result: int
    width: int  # channels per filter
    filters: tuple[int, int]
    trim: tuple[int, int]  # the channels within those of the filters

    @property
    def is_trimmed(self) -> bool:
        first, last = self.filters
        return self.trim != (0, (last - first) * self.width)


def wanted(operand: Operand, channels: Ranges) -> tuple[Wanted, ...]:
    """Return the given channels of an operand as runs of filters, in their order."""
    found = []
    for low, high in channels:
        for first, source in operand.located():
            start, stop = max(low - first, 0), min(high - first, source.num_channels)
            if start < stop:
                begin, end = start // source.width, -(-stop // source.width)
                trim = (start - begin * source.width, stop - begin * source.width)
                filters = (source.start + begin, source.start + end)
                found.append(Wanted(source.layer, source.result, source.width, filters, trim))
    return tuple(found)


def pick(layer: str, filters: Ranges, rows: Range, held: Sequence[Held]) -> tuple[Line, ...]:
    """Return filters by rows as lines of slices of held tensors, one line under the other, as few as there can be."""
    lines: list[Line] = []
    for band in pairwise(sorted({*rows, *(r for h in held for r in h.rows if rows[0] < r < rows[1])})):
        line = _line(layer, filters, band, held)
        if lines and _continues(lines[-1], line):
            lines[-1] = tuple(replace(one, rows=(one.rows[0], band[1])) for one in lines[-1])
        else:
            lines.append(line)
    return tuple(lines)


def _continues(above: Line, below: Line) -> bool:
    """Say whether a line is made of the same tensors' next rows."""
    return [(s.variable, s.start, s.stop) for s in above] == [(s.variable, s.start, s.stop) for s in below]


def _line(layer: str, filters: Ranges, rows: Range, held: Sequence[Held]) -> Line:
    spans = sorted(_spans([h for h in held if h.rows[0] <= rows[0] and rows[1] <= h.rows[1]]), key=lambda span: span[0])
    starts = [start for (start, _), _, _ in spans]
    slices: list[Slice] = []
    for low, high in filters:
        while low < high:
            number = bisect_right(starts, low) - 1
            if number < 0 or low >= spans[number][0][1]:
                raise UsageError(
                    f"the plan does not bring filter {low} of {layer} to a part that reads it; make the plan again"
                )
            (start, stop), offset, tensor = spans[number]
            end, shift = min(high, stop), offset - start
            size = count(tensor.filters)
            _append(slices, Slice(tensor.variable, low + shift, end + shift, size, rows, tensor.rows))
            low = end
    return tuple(slices)


def _spans(held: Iterable[Held]) -> Iterable[tuple[Range, int, Held]]:
    """Yield every run of filters with its place in the tensor that has it."""
    for tensor in held:
        offset = 0
        for start, stop in tensor.filters:
            yield (start, stop), offset, tensor
            offset += stop - start


def _append(slices: list[Slice], one: Slice) -> None:
    last = slices[-1] if slices else None
    if last and (last.variable, last.stop) == (one.variable, one.start):
        slices[-1] = replace(last, stop=one.stop)
    else:
        slices.append(one)
