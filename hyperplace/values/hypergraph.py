"""Vertices with work, nets with a cost in bytes: what is partitioned.

Nets are offsets plus pins: net n joins the vertices pins[offsets[n]:offsets[n + 1]]. Weights are whole numbers
of `work_unit`, small enough that their sum fits into 31 bits, as every partitioner wants; costs are bytes.
"""

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from hyperplace.errors import HyperplaceError
from hyperplace.values.arrays import ArrayValue, Ints, frozen_ints

if TYPE_CHECKING:
    import networkx as nx

INT32_MAX = 2**31 - 1


@dataclass(frozen=True, eq=False, repr=False)
class Labels(ArrayValue):
    """What every vertex and net stands for.

    A vertex is filters filter_start..filter_stop of layers[layer_of]; a kernel of the fine grain also has channels
    channel_start..channel_stop, all other vertices have -1 there. A vertex of the hybrid grain has rows
    row_start..row_stop of the batch, -1 where it has all. A net carries the output of its layer, or, where
    `net_is_fold`, the layer's partial sums, or, where `net_is_weights`, its gradients and weights.
    """

    layers: tuple[str, ...]
    layer_of: Ints
    filter_start: Ints
    filter_stop: Ints
    channel_start: Ints
    channel_stop: Ints
    is_input: Ints  # per vertex: 1 for the model's input channels
    net_layer: Ints
    net_is_fold: Ints
    row_start: Ints = field(default_factory=lambda: np.empty(0, np.int64))  # may be left out where all have all rows
    row_stop: Ints = field(default_factory=lambda: np.empty(0, np.int64))
    net_is_weights: Ints = field(default_factory=lambda: np.empty(0, np.int64))  # may be left out where none is

    def __post_init__(self) -> None:
        for name, usual, like in (
            ("row_start", -1, "layer_of"),
            ("row_stop", -1, "layer_of"),
            ("net_is_weights", 0, "net_layer"),
        ):
            if not len(getattr(self, name)):
                object.__setattr__(self, name, np.full(len(getattr(self, like)), usual))
        for name in self.__dataclass_fields__:
            if name != "layers":
                object.__setattr__(self, name, frozen_ints(getattr(self, name)))

    def vertex(self, number: int) -> str:
        """Name one vertex in the user's words: `features.2[0:16]`, with `,[3:6]` for a kernel's channels, then rows."""
        text = f"{self.layers[self.layer_of[number]]}[{self.filter_start[number]}:{self.filter_stop[number]}]"
        if self.channel_start[number] >= 0:
            text += f",[{self.channel_start[number]}:{self.channel_stop[number]}]"
        if self.row_start[number] >= 0:
            text += f" rows {self.row_start[number]}:{self.row_stop[number]}"
        return text


@dataclass(frozen=True, eq=False, repr=False)
class Hypergraph(ArrayValue):
    """A hypergraph that exists is valid: sorted offsets, pins in range, no negative weight or cost."""

    offsets: Ints
    pins: Ints
    weights: Ints
    costs: Ints
    work_unit: str = ""  # what one unit of weight is, such as "196608 flops"; empty where unknown
    labels: Labels | None = None

    def __post_init__(self) -> None:
        for name in ("offsets", "pins", "weights", "costs"):
            object.__setattr__(self, name, frozen_ints(getattr(self, name)))
        if faults := list(self._faults()):
            raise HyperplaceError("not a hypergraph: " + "; ".join(faults))

    def _faults(self) -> list[str]:
        faults = []
        if self.num_vertices == 0:
            faults.append("it has no vertices")
        if len(self.offsets) != len(self.costs) + 1 or self.offsets[0] != 0 or self.offsets[-1] != len(self.pins):
            faults.append(f"{len(self.offsets)} offsets do not fit {len(self.costs)} nets, {len(self.pins)} pins")
        elif np.any(np.diff(self.offsets) < 1):
            faults.append(f"net {int(np.argmin(np.diff(self.offsets)))} has no pins")
        if len(self.pins) and not (self.pins.min() >= 0 and self.pins.max() < self.num_vertices):
            faults.append(f"a pin is outside 0..{self.num_vertices - 1}")
        if self.num_vertices and self.weights.min() < 0:
            faults.append("a vertex weight is negative")
        if len(self.costs) and self.costs.min() < 0:
            faults.append("a net cost is negative")
        return faults

    def __repr__(self) -> str:
        return f"Hypergraph({self.num_vertices:,} vertices, {self.num_nets:,} nets, {self.num_pins:,} pins)"

    @property
    def num_vertices(self) -> int:
        return len(self.weights)

    @property
    def num_nets(self) -> int:
        return len(self.costs)

    @property
    def num_pins(self) -> int:
        return len(self.pins)

    @property
    def total_weight(self) -> int:
        return int(self.weights.sum())

    @cached_property
    def net_of_pin(self) -> Ints:
        """The net of every pin."""
        return np.repeat(np.arange(self.num_nets), np.diff(self.offsets))

    def net(self, number: int) -> Ints:
        return self.pins[self.offsets[number] : self.offsets[number + 1]]

    def to_networkx(self) -> "nx.Graph[tuple[str, int]]":
        """Return the bipartite graph of ("vertex", i) and ("net", j); for small hypergraphs."""
        import networkx as nx

        graph: nx.Graph[tuple[str, int]] = nx.Graph()
        for vertex, weight in enumerate(self.weights.tolist()):
            name = self.labels.vertex(vertex) if self.labels else str(vertex)
            graph.add_node(("vertex", vertex), weight=weight, name=name)
        for net, cost in enumerate(self.costs.tolist()):
            graph.add_node(("net", net), cost=cost)
            graph.add_edges_from((("net", net), ("vertex", pin)) for pin in self.net(net).tolist())
        return graph
