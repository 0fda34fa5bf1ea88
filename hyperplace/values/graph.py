"""The layers of a model and how channels flow between them: what capture returns.

A layer has filters (its output channels). An operand is one tensor the layer reads, as the list of the filters,
of whatever layers, that make up its channels: concatenation, slicing and shuffling are only a renaming here.
Bytes, multiply-adds and shapes are for one row of the batch.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any

from hyperplace.values.call import Call, Ref, Rows, TensorType, couples_rows
from hyperplace.values.channels import Groups, Reads, channels_read
from hyperplace.values.ranges import Ranges

if TYPE_CHECKING:
    import networkx as nx

__all__ = [
    "Call",
    "Graph",
    "Layer",
    "Operand",
    "Parameter",
    "Reads",
    "Ref",
    "Rows",
    "Rule",
    "Source",
    "TensorType",
]


class Rule(StrEnum):
    """How a layer may be split."""

    INPUT = "input"
    MIXING = "mixing"
    GROUPED = "grouped"
    CHANNELWISE = "channel-wise"
    WHOLE = "whole"


@dataclass(frozen=True)
class Source:
    """A run of neighbouring filters of one layer; `width` channels come from each (more than 1 after a flatten).

    `result` is which of several results is meant where a layer placed whole has more than one.
    """

    layer: str
    start: int
    stop: int
    width: int = 1
    result: int = 0

    @property
    def num_channels(self) -> int:
        return (self.stop - self.start) * self.width


@dataclass(frozen=True)
class Operand:
    """One tensor a layer reads: its name in the captured program, where its channels come from, who reads which."""

    value: str
    shape: tuple[int, ...]
    sources: tuple[Source, ...]
    reads: Reads
    has_rows: bool = True  # dimension 0 is the batch, and nothing else depends on its size

    @property
    def num_channels(self) -> int:
        return sum(source.num_channels for source in self.sources)

    def located(self) -> Iterator[tuple[int, Source]]:
        """Yield every source with the number of its first channel in this operand."""
        first = 0
        for source in self.sources:
            yield first, source
            first += source.num_channels


@dataclass(frozen=True)
class Parameter:
    """A parameter of the model by its own name; `trained` is false for buffers."""

    name: str
    shape: tuple[int, ...]
    num_bytes: int
    trained: bool = True
    dtype: str = "float32"


@dataclass(frozen=True)
class Layer:
    """One anchor operation with the channel-wise operations that follow it."""

    name: str
    kind: str
    rule: Rule
    num_filters: int
    map_bytes: int  # one filter's output, one row, as it leaves the layer (after pooling)
    fixed_bytes: int = 0  # what of its output does not grow with the rows
    shape: tuple[int, ...] = ()  # of its output, for the rows it was captured with
    results: tuple[int, ...] = ()  # of a layer placed whole that has several: those that are read
    operands: tuple[Operand, ...] = ()
    groups: int = 1
    partial_bytes: int = 0  # one filter's output, one row, as it leaves the anchor (before pooling)
    saved_bytes: int = 0  # what one filter keeps for the backward pass, one row
    macs: int = 0  # multiply-adds of the whole layer, one row
    sums_channels: bool = False  # the anchor is a sum over channels, so it has a fine grain
    parameters: tuple[Parameter, ...] = ()
    calls: tuple[Call, ...] = ()
    num_anchor_calls: int = 0  # how many of the calls come before the trailing ones
    reason: str = ""  # why it is placed whole
    has_rows: bool = True  # dimension 0 of its output is the batch, and nothing else depends on its size
    couples_rows: bool = False  # a row of its output may depend on other rows of the batch
    result_values: tuple[str, ...] = ()  # of a layer of several calls with several results: their names, one for each
    writes: tuple[str, ...] = ()  # buffers that it changes
    makes: tuple[TensorType, ...] = ()  # its output, or those of its results that are read
    channel_axis: int = 1  # of its output: where its filters lie
    # Whether batch norms whose rows are apart tell each other their statistics; no part of a measurement's name.
    exchanges_statistics: bool = field(default=True, repr=False)

    @property
    def parameter_bytes(self) -> int:
        return sum(p.num_bytes for p in self.parameters if p.trained)

    @property
    def filter_parameter_bytes(self) -> int:
        """Return the trained parameters of one filter; only of a layer that splits rows is it all there is."""
        return self.parameter_bytes // self.num_filters

    @property
    def filter_statistics_bytes(self) -> int:
        """Return one message about one filter's batch norms where its rows are apart: two numbers per channel."""
        if not self.exchanges_statistics:
            return 0
        norms = [call for call in self.calls if call.op.startswith("aten.batch_norm.") and call.args[5]]
        channels = sum(call.shape[1] for call in norms)
        element_bytes = self.map_bytes * self.num_filters // _size(self.shape[1:]) if norms else 0
        return 2 * element_bytes * channels // self.num_filters

    @property
    def width(self) -> int:
        """Return how many channels of its output come from each filter: more than one after a flatten."""
        if self.rule is Rule.WHOLE or len(self.shape) <= self.channel_axis:
            return 1
        return self.shape[self.channel_axis] // self.num_filters

    def groups_of(self, operand: Operand) -> Groups:
        """Return the groups in which filters read an operand."""
        return Groups(self.num_filters, operand.num_channels, self.groups)

    def channels_read(self, operand: Operand, filters: Ranges) -> Ranges:
        """Return the ranges of the operand's channels that filters read."""
        return channels_read(operand.reads, filters, self.groups_of(operand))


@dataclass(frozen=True)
class Graph:
    """All layers in topological order; inputs come first, `outputs` are what the model returns."""

    layers: tuple[Layer, ...]
    outputs: tuple[Operand, ...]
    rows: int  # rows of the sample it was captured with
    # How the model returns its outputs, and its positional and keyword arguments: lists, tuples and dicts, in which a
    # tensor is a Ref to its number and all else is a constant.
    returns: Any = field(default_factory=lambda: Ref("0"))
    takes: Any = field(default_factory=lambda: ((Ref("0"),), {}))
    evaluates: bool = True  # in evaluation mode it computes its outputs in the same way
    fewest_rows: int = 1  # that the model's code takes the same way
    most_rows: int | None = None

    def __post_init__(self) -> None:
        known: set[str] = set()
        for layer in self.layers:
            for operand in layer.operands:
                missing = {source.layer for source in operand.sources} - known
                assert not missing, f"{layer.name} reads {missing} before they are computed"
            assert layer.name not in known, f"two layers are called {layer.name}"
            known.add(layer.name)

    def __repr__(self) -> str:
        whole = sum(layer.rule is Rule.WHOLE for layer in self.layers)
        macs = sum(layer.macs for layer in self.layers)
        return (
            f"Graph({len(self.layers)} layers, {self.num_parameters:,} parameters, "
            f"{macs / 1e9:.3g} G multiply-adds per row, {whole} placed whole)"
        )

    @cached_property
    def index_of(self) -> dict[str, int]:
        return {layer.name: number for number, layer in enumerate(self.layers)}

    def __getitem__(self, name: str) -> Layer:
        return self.layers[self.index_of[name]]

    def without_statistics(self) -> "Graph":
        """Return the graph whose batch norms keep their statistics to themselves where rows are apart."""
        return replace(self, layers=tuple(replace(layer, exchanges_statistics=False) for layer in self.layers))

    @property
    def num_parameters(self) -> int:
        return sum(_size(p.shape) for p in self._trained().values())

    @property
    def parameter_bytes(self) -> int:
        return sum(p.num_bytes for p in self._trained().values())

    @cached_property
    def learning(self) -> frozenset[str]:
        """The layers whose output has a gradient: something before it, or in it, is trained."""
        found: set[str] = set()
        for layer in self.layers:
            sources = {source.layer for operand in layer.operands for source in operand.sources}
            if sources & found or any(p.trained for p in layer.parameters):
                found.add(layer.name)
        return frozenset(found)

    @cached_property
    def tied_parameters(self) -> frozenset[str]:
        """The trained parameters that several layers use."""
        names = [p.name for layer in self.layers for p in layer.parameters if p.trained]
        return frozenset(name for name, count in Counter(names).items() if count > 1)

    def splits_rows(self, layer: Layer) -> bool:
        """Say whether rows of the batch may be computed apart: all it reads and makes has them, and each filter's
        parameters are its own.
        """
        sources = [self[source.layer] for operand in layer.operands for source in operand.sources]
        return (
            layer.rule is not Rule.WHOLE
            and not self.has_fixed_rows
            and layer.has_rows
            and all(operand.has_rows for operand in layer.operands)
            and not any(source.results for source in sources)  # several results travel together, with all rows
            and all(p.num_bytes % layer.num_filters == 0 for p in layer.parameters if p.trained)
            and not any(_ties_rows(layer, call) for call in layer.calls)
        )

    @property
    def has_fixed_rows(self) -> bool:
        """Say whether the model works for the rows of its sample only."""
        return self.fewest_rows == self.most_rows

    @property
    def coupling(self) -> tuple[str, ...]:
        """Return the layers in which rows of the batch see each other, or something changes with every mini-batch."""
        return tuple(layer.name for layer in self.layers if layer.couples_rows or layer.writes)

    def _trained(self) -> dict[str, Parameter]:
        """Return every trained parameter once, also where layers share one."""
        return {p.name: p for layer in self.layers for p in layer.parameters if p.trained}

    def to_networkx(self) -> "nx.DiGraph[str]":
        """Return the layers as a networkx graph; an edge carries the number of channels that flow along it."""
        import networkx as nx

        graph: nx.DiGraph[str] = nx.DiGraph()
        for layer in self.layers:
            graph.add_node(layer.name, kind=layer.kind, rule=str(layer.rule), num_filters=layer.num_filters)
            for operand in layer.operands:
                for source in operand.sources:
                    flow = graph.get_edge_data(source.layer, layer.name, {"channels": 0})["channels"]
                    graph.add_edge(source.layer, layer.name, channels=flow + source.num_channels)
        return graph


def _ties_rows(layer: Layer, call: Call) -> bool:
    """Say whether a call needs all rows, or its weights are not cut by filters alone."""
    if couples_rows(call) and call.name != "batch_norm":  # whose parts tell each other their statistics
        return True
    return call.op.startswith("aten.conv_transpose") and layer.groups > 1


def _size(shape: tuple[int, ...]) -> int:
    size = 1
    for side in shape:
        size *= side
    return size
