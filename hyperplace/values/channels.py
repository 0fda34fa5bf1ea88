"""The rules of channels, each written once: what a filter reads, and where filters and channels lie in weights.

A layer's filters are the channels of its output, which lie on the layer's channel axis. Of grouped layers, the filters
of a group read the channels of that group.
"""

from dataclasses import dataclass
from enum import StrEnum

from hyperplace.values.ranges import Ranges, union

NORMS = frozenset(["batch_norm", "instance_norm", "group_norm", "prelu"])  # whose parameters have a number per channel


class Reads(StrEnum):
    """Which channels of an operand one filter of the layer reads."""

    ALL = "all"  # every channel: a convolution, a linear layer, anything placed whole
    GROUP = "group"  # the channels of the filter's own group
    SAME = "same"  # the channel with the filter's own number


@dataclass(frozen=True)
class Groups:
    """How many filters, channels of an operand, and groups of both a layer has."""

    num_filters: int
    num_channels: int
    count: int = 1

    @property
    def filters(self) -> int:
        """Of each group."""
        return self.num_filters // self.count

    @property
    def channels(self) -> int:
        """Of each group."""
        return self.num_channels // self.count

    def of(self, filter_: int) -> int:
        """Return the group of a filter."""
        return filter_ // self.filters


def channels_read(reads: str, filters: Ranges, groups: Groups) -> Ranges:
    """Return the channels of an operand that filters read, as sorted ranges apart from each other."""
    if reads == Reads.SAME:
        return filters
    if reads == Reads.ALL:
        return ((0, groups.num_channels),)
    touched = ((groups.of(start), groups.of(stop - 1) + 1) for start, stop in filters)
    return union([tuple((first * groups.channels, last * groups.channels) for first, last in touched)])


@dataclass(frozen=True)
class KernelAxes:
    """On which axes of a kernel its filters and its channels lie; the second of them are counted within a group."""

    filters: int
    channels: int

    def shape(self, groups: Groups) -> tuple[int, int]:
        """Return the sizes of the two axes."""
        sides = {self.filters: groups.num_filters, self.channels: groups.num_channels}
        return sides[0], sides[1] // groups.count

    def cuts(self, filters: Ranges, channels: Ranges, groups: Groups) -> dict[int, Ranges]:
        """Return the ranges of both axes for filters by channels, all of one group."""
        group = groups.of(filters[0][0])
        if self.filters == 0:
            return {0: filters, 1: _moved(channels, -group * groups.channels)}
        return {0: channels, 1: _moved(filters, -group * groups.filters)}


def kernel_axes(op: str) -> KernelAxes:
    """Return the axes of the weight of a convolution, transposed or not, or a linear layer."""
    return KernelAxes(1, 0) if op.startswith("conv_transpose") else KernelAxes(0, 1)


def filter_axis(op: str, argument: str, shape: tuple[int, ...], result: tuple[int, ...]) -> int | None:
    """Return the axis of a parameter, of a call with such a result, that runs over filters; None if none does."""
    if op.startswith("conv") or op == "linear":
        return kernel_axes(op).filters if argument == "weight" else 0
    if op in NORMS:
        return 0
    axis = len(shape) - (len(result) - 1)  # parameters are broadcast from the last axis on, and channels are the second
    return axis if 0 <= axis < len(shape) and shape[axis] == result[1] else None


def _moved(ranges: Ranges, by: int) -> Ranges:
    return tuple((start + by, stop + by) for start, stop in ranges)
