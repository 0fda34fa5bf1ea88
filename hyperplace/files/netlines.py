"""What PaToH and hMETIS files share: a header, then a line of pins for every net, then the vertex weights.

They differ in the header, in the number of the first vertex, and in how the weights are laid out.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from hyperplace.files.rows import MOST_UNSEEN, Rows
from hyperplace.files.units import costs_in_bytes, work_unit
from hyperplace.values.arrays import Ints
from hyperplace.values.hypergraph import Hypergraph


@dataclass(frozen=True)
class Header:
    """What the first line of either format promises."""

    num_vertices: int
    num_nets: int
    num_pins: int | None  # None where the format does not say
    first_vertex: int  # 0 or 1
    has_costs: bool  # every net line starts with the net's cost; else all are 1
    has_weights: bool  # the weights follow the nets; else all are 1


def net_lines(hypergraph: Hypergraph, cost_unit: int, first_vertex: int) -> Iterator[str]:
    """Yield one line per net: its cost in the given unit, then its pins."""
    offsets, pins = hypergraph.offsets.tolist(), hypergraph.pins + first_vertex
    for net, cost in enumerate((hypergraph.costs // cost_unit).tolist()):
        yield f"{cost} {' '.join(map(str, pins[offsets[net] : offsets[net + 1]].tolist()))}\n"


def hypergraph_from(rows: Rows, header: Header) -> Hypergraph:
    """Check the rows against their header and return the hypergraph; it has no labels."""
    _check_sizes(rows, header)
    costs, offsets, pins = _nets(rows, header)
    weights = _weights(rows, header)
    return Hypergraph(offsets, pins, weights, costs_in_bytes(rows, costs), work_unit(rows))


def _check_sizes(rows: Rows, header: Header) -> None:
    """Refuse sizes that the file is too short for, before anything of that size is made."""
    if header.num_vertices == 0:
        raise rows.fault(0, "the header promises 0 vertices; a hypergraph has at least one")
    sizes = {"vertices": header.num_vertices, "nets": header.num_nets, "pins": header.num_pins or 0}
    for what, size in sizes.items():
        if size > max(rows.num_characters, MOST_UNSEEN):
            raise rows.fault(0, f"the header promises {size} {what} in a file of {rows.num_characters} characters")
    if rows.num_rows - 1 < header.num_nets:
        raise rows.fault(-1, f"the file ends after {rows.num_rows - 1} of {header.num_nets} nets")


def _nets(rows: Rows, header: Header) -> tuple[Ints, Ints, Ints]:
    """Return the costs as written, the offsets, and the pins counted from 0."""
    bounds = rows.offsets[1 : header.num_nets + 2]
    offsets, pins = bounds - bounds[0], rows.values[bounds[0] : bounds[-1]]
    costs = np.ones(header.num_nets, np.int64)
    _check_not_empty(rows, np.diff(offsets) - header.has_costs)
    if header.has_costs:
        costs, pins = pins[offsets[:-1]], np.delete(pins, offsets[:-1])
        offsets -= np.arange(len(offsets))
        _check_costs(rows, costs)
    _check_pins(rows, header, offsets, pins)
    return costs, offsets, pins - header.first_vertex


def _check_not_empty(rows: Rows, sizes: Ints) -> None:
    empty = np.flatnonzero(sizes < 1)
    if len(empty):
        raise rows.fault(1 + int(empty[0]), f"net {empty[0]} has no pins")


def _check_costs(rows: Rows, costs: Ints) -> None:
    negative = np.flatnonzero(costs < 0)
    if len(negative):
        net = int(negative[0])
        raise rows.fault(1 + net, f"the cost of net {net} is negative: {costs[net]}")


def _check_pins(rows: Rows, header: Header, offsets: Ints, pins: Ints) -> None:
    # The count comes first: where a net line is missing, the weights were read as pins.
    if header.num_pins is not None and len(pins) != header.num_pins:
        raise rows.fault(0, f"the header promises {header.num_pins} pins, but the nets have {len(pins)}")
    first, last = header.first_vertex, header.first_vertex + header.num_vertices - 1
    outside = np.flatnonzero((pins < first) | (pins > last))
    if len(outside):
        net = int(np.searchsorted(offsets, outside[0], side="right")) - 1
        raise rows.fault(1 + net, f"pin {pins[outside[0]]} is outside {first}..{last}")


def _weights(rows: Rows, header: Header) -> Ints:
    """Return the numbers after the nets, however they are spread over lines."""
    start = int(rows.offsets[header.num_nets + 1])
    weights = rows.values[start:]
    expected = header.num_vertices if header.has_weights else 0
    if len(weights) > expected:
        what = f"{len(weights)} numbers follow the nets, but the header promises {expected} vertex weights"
        raise rows.fault_at(start + expected, what)
    if len(weights) < expected:
        raise rows.fault(-1, f"the file ends after {len(weights)} of {expected} vertex weights")
    negative = np.flatnonzero(weights < 0)
    if len(negative):
        what = f"the weight of vertex {negative[0]} is negative: {weights[negative[0]]}"
        raise rows.fault_at(start + int(negative[0]), what)
    return weights if header.has_weights else np.ones(header.num_vertices, np.int64)
