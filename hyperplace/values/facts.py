"""What a model says about a layer, as far as a plan's messages, copies and costs follow from it.

A plan carries the facts it was made of, so that whoever reads one can recompute it without the model; whoever has the
model too compares them with its own.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from hyperplace.values.channels import Groups, channels_read
from hyperplace.values.graph import Graph, Layer, Operand, Ref
from hyperplace.values.ranges import Ranges, union


@dataclass(frozen=True)
class FilterRun:
    """A run of neighbouring filters of a layer, each of which gives `width` channels."""

    layer: str
    start: int
    stop: int
    width: int

    @property
    def num_channels(self) -> int:
        return (self.stop - self.start) * self.width


@dataclass(frozen=True)
class Reading:
    """One tensor that a layer reads: the filters its channels come from, and which of them one filter reads."""

    runs: tuple[FilterRun, ...]
    reads: str  # a word of graph.Reads

    @property
    def num_channels(self) -> int:
        return sum(run.num_channels for run in self.runs)

    def filters_of(self, channels: Ranges) -> Iterator[tuple[str, Ranges]]:
        """Yield the filters, layer by layer, that the channels come from: the fewest that hold them."""
        first = 0
        for run in self.runs:
            low, high = first, first + run.num_channels
            inside = [(max(a, low) - low, min(b, high) - low) for a, b in channels if max(a, low) < min(b, high)]
            if inside:
                cut = ((run.start + a // run.width, run.start - (-b // run.width)) for a, b in inside)
                yield run.layer, union([tuple(cut)])
            first = high


@dataclass(frozen=True)
class Tied:
    """A trained parameter that other layers use too: it has one owner, the part of the first of them."""

    name: str
    num_bytes: int


@dataclass(frozen=True)
class Facts:
    """One layer; bytes of maps are of one filter and one row, bytes of parameters of the whole layer."""

    readings: tuple[Reading, ...] = ()
    groups: int = 1
    map_bytes: int = 0  # as it leaves the layer
    fixed_bytes: int = 0  # what of its output does not grow with the rows, in whatever message
    partial_bytes: int = 0  # as it leaves an anchor that sums channels
    saved_bytes: int = 0  # what is kept for the backward pass
    parameter_bytes: int = 0  # trained ones
    kernel_bytes: int = 0  # of these the kernels, which the fine grain cuts by channels too
    statistics_bytes: int = 0  # one message about one filter's batch norms where its rows are apart
    tied: tuple[Tied, ...] = ()
    has_state: bool = False  # parameters, buffers or statistics, which have one owner wherever rows are apart
    learns: bool = False  # its output has a gradient
    sums_channels: bool = False
    splits_rows: bool = False

    def channels_read(self, reading: Reading, filters: Ranges, num_filters: int) -> Ranges:
        """Return the channels that filters of this layer, which has num_filters, read of a tensor."""
        return channels_read(reading.reads, filters, Groups(num_filters, reading.num_channels, self.groups))


def facts_of(graph: Graph, layer: Layer) -> Facts:
    """Return what a captured model says about one of its layers."""
    return Facts(
        readings=tuple(_reading(operand) for operand in layer.operands),
        groups=layer.groups,
        map_bytes=layer.map_bytes,
        fixed_bytes=layer.fixed_bytes,
        partial_bytes=layer.partial_bytes if layer.sums_channels else 0,
        saved_bytes=layer.saved_bytes,
        parameter_bytes=layer.parameter_bytes,
        kernel_bytes=_kernel_bytes(layer),
        statistics_bytes=layer.filter_statistics_bytes,
        tied=tuple(Tied(p.name, p.num_bytes) for p in layer.parameters if p.name in graph.tied_parameters),
        has_state=bool(layer.parameters or layer.filter_statistics_bytes),
        learns=layer.name in graph.learning,
        sums_channels=layer.sums_channels,
        splits_rows=graph.splits_rows(layer),
    )


def _reading(operand: Operand) -> Reading:
    runs = tuple(FilterRun(source.layer, source.start, source.stop, source.width) for source in operand.sources)
    return Reading(runs, str(operand.reads))


def _kernel_bytes(layer: Layer) -> int:
    """Return the bytes of the parameter that a sum over channels multiplies with, where it is trained."""
    if not layer.sums_channels:
        return 0
    kernel = layer.calls[layer.num_anchor_calls - 1].args[1]
    if not isinstance(kernel, Ref):
        return 0
    return sum(p.num_bytes for p in layer.parameters if p.trained and p.name == kernel.name)
