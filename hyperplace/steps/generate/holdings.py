"""What tensors a part has at hand, and how to put together the channels it wants from them."""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hyperplace.errors import UsageError
from hyperplace.values.graph import Operand
from hyperplace.values.plan import Ranges


@dataclass(frozen=True)
class Held:
    """A tensor: these filters of a layer side by side in dimension 1."""

    variable: str
    filters: Ranges


@dataclass(frozen=True)
class Slice:
    """Filters start..stop of a held tensor, counted from its own first."""

    variable: str
    start: int
    stop: int
    size: int  # how many filters the tensor has

    @property
    def is_all(self) -> bool:
        return self.stop - self.start == self.size


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


def pick(layer: str, filters: Ranges, held: Sequence[Held]) -> tuple[Slice, ...]:
    """Return the filters as slices of held tensors, as few as there can be."""
    spans = sorted(_spans(held))
    starts = [span[0] for span in spans]
    slices: list[Slice] = []
    for low, high in filters:
        while low < high:
            number = bisect_right(starts, low) - 1
            if number < 0 or low >= spans[number][1]:
                raise UsageError(
                    f"the plan does not bring filter {low} of {layer} to a part that reads it; make the plan again"
                )
            start, stop, offset, tensor, size = spans[number]
            end = min(high, stop)
            _append(slices, Slice(tensor, offset + low - start, offset + end - start, size))
            low = end
    return tuple(slices)


def _spans(held: Iterable[Held]) -> Iterable[tuple[int, int, int, str, int]]:
    """Yield every run of filters with its place in the tensor that has it, and that tensor's size."""
    for tensor in held:
        offset, size = 0, count(tensor.filters)
        for start, stop in tensor.filters:
            yield start, stop, offset, tensor.variable, size
            offset += stop - start


def _append(slices: list[Slice], one: Slice) -> None:
    last = slices[-1] if slices else None
    if last and (last.variable, last.stop) == (one.variable, one.start):
        slices[-1] = Slice(last.variable, last.start, one.stop, last.size)
    else:
        slices.append(one)


def count(ranges: Ranges) -> int:
    return sum(stop - start for start, stop in ranges)


def ranges_of(numbers: Iterable[int]) -> Ranges:
    """Return numbers as sorted runs of neighbours."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and runs[-1][1] == number:
            runs[-1][1] += 1
        else:
            runs.append([number, number + 1])
    return tuple((start, stop) for start, stop in runs)


def common(one: Ranges, other: Ranges) -> Ranges:
    """Return what two sorted lists of ranges have in common."""
    pairs = ((max(a, c), min(b, d)) for a, b in one for c, d in other)
    return tuple((start, stop) for start, stop in pairs if start < stop)
