"""Collect vertices and nets one layer after the other, and hand them over as a Hypergraph with whole weights.

Partitioners add weights up in 32 bits. Counted work is divided by its greatest common divisor, which loses nothing;
measured work is rounded to a tick fine enough that no layer notices.
"""

import numpy as np

from hyperplace.values.arrays import Floats, Ints
from hyperplace.values.graph import Graph
from hyperplace.values.hypergraph import INT32_MAX, Hypergraph, Labels


class Assembly:
    """The vertices and nets of a hypergraph in the making."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.num_vertices = 0
        self._layer_of: list[Ints] = []
        self._spans: list[Ints] = []  # filter start, filter stop, channel start, channel stop
        self._rows: list[Ints] = []  # row start, row stop
        self._work: list[Floats] = []
        self._nets: list[Ints] = []
        self._costs: list[int] = []
        self._net_layer: list[int] = []
        self._net_is_fold: list[bool] = []
        self._net_is_weights: list[bool] = []

    def add_vertices(
        self, layer: int, filters: Ints, channels: Ints | None, work: Floats, rows: Ints | None = None
    ) -> Ints:
        """Add a vertex per line of `filters` (start, stop) and return their numbers."""
        count = len(filters)
        spans = channels if channels is not None else np.full((count, 2), -1, np.int64)
        self._layer_of.append(np.full(count, layer, np.int64))
        self._spans.append(np.hstack([filters, spans]))
        self._rows.append(rows if rows is not None else np.full((count, 2), -1, np.int64))
        self._work.append(work)
        numbers = np.arange(self.num_vertices, self.num_vertices + count)
        self.num_vertices += count
        return numbers

    def add_net(
        self, layer: int, pins: list[Ints], cost: int, *, is_fold: bool = False, is_weights: bool = False
    ) -> None:
        """Add the net of the pins; one that joins a vertex with nobody is left out."""
        net = pins[0] if len(pins) == 1 else np.concatenate(pins)
        if len(pins) > 2:  # an operand may read the same block twice
            net = np.concatenate([net[:1], np.setdiff1d(net[1:], net[:1])])
        if len(net) > 1:
            self._nets.append(net)
            self._costs.append(cost)
            self._net_layer.append(layer)
            self._net_is_fold.append(is_fold)
            self._net_is_weights.append(is_weights)

    def hypergraph(self, unit: str) -> Hypergraph:
        """Return what was collected; `unit` is the unit of the vertices' work."""
        weights, work_unit = whole_weights(np.concatenate(self._work), unit)
        layer_of, spans = np.concatenate(self._layer_of), np.vstack(self._spans)
        rows = np.vstack(self._rows)
        inputs = np.array([layer.rule == "input" for layer in self.graph.layers])
        labels = Labels(
            tuple(layer.name for layer in self.graph.layers),
            layer_of,
            spans[:, 0],
            spans[:, 1],
            spans[:, 2],
            spans[:, 3],
            is_input=inputs[layer_of],
            net_layer=np.array(self._net_layer),
            net_is_fold=np.array(self._net_is_fold),
            row_start=rows[:, 0],
            row_stop=rows[:, 1],
            net_is_weights=np.array(self._net_is_weights),
        )
        offsets = np.concatenate([[0], np.cumsum([len(net) for net in self._nets])])
        pins = np.concatenate(self._nets) if self._nets else np.empty(0, np.int64)
        return Hypergraph(offsets, pins, weights, np.array(self._costs), work_unit, labels)


def whole_weights(work: Floats, unit: str) -> tuple[Ints, str]:
    """Return integer weights whose sum fits into 31 bits, and what one of them is worth."""
    if np.all(work == np.rint(work)) and work.max(initial=0) < 2**62:
        counts = work.astype(np.int64)
        divisor = int(np.gcd.reduce(counts)) or 1
        if int(counts.sum()) // divisor <= INT32_MAX:
            return counts // divisor, f"{divisor} {unit}"
    total = float(work.sum())
    tick = 10.0 ** np.ceil(np.log10(total / 2**30))
    weights = np.rint(work / tick).astype(np.int64)
    return np.where(work > 0, np.maximum(weights, 1), 0), f"{tick:g} {unit}"
