"""Hypergraphs to and from files, in the text formats of PaToH and hMETIS.

Both are a header, then a line of pins for every net, then the vertex weights. They differ in the header, in the number
of the first vertex, and in how the weights are laid out.

PaToH, where a vertex is called a cell:

    base cells nets pins flag [constraints]     flag: 0 nothing, 1 cell weights, 2 net costs, 3 both
    [cost] pin pin ...                          one line per net
    weight weight ...                           of all cells, on as many lines as one likes

hMETIS, which KaHyPar and most other partitioners read too:

    nets vertices [fmt]                         fmt: 0 nothing, 1 net costs, 10 vertex weights, 11 both
    [cost] pin pin ...                          one line per net, vertices counted from 1
    weight                                      one line per vertex
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hyperplace.errors import FileError, UsageError
from hyperplace.files.rows import MOST_UNSEEN, Rows, parse_rows
from hyperplace.files.units import cost_unit, costs_in_bytes, unit_comments, work_unit
from hyperplace.files.write import Pathlike, read_text, write_text
from hyperplace.values.arrays import Ints
from hyperplace.values.hypergraph import Hypergraph

_PATOH = "base cells nets pins flag [constraints]"
_HMETIS = "nets vertices [fmt]"


@dataclass(frozen=True)
class Format:
    """How a hypergraph becomes text and back, and the suffixes of its files."""

    text: Callable[[Hypergraph], str]
    parse: Callable[[str, str], Hypergraph]
    suffixes: tuple[str, ...]


@dataclass(frozen=True)
class _Header:
    """What the first line of either format promises."""

    num_vertices: int
    num_nets: int
    num_pins: int | None  # None where the format does not say
    first_vertex: int  # 0 or 1
    has_costs: bool  # every net line starts with the net's cost; else all are 1
    has_weights: bool  # the weights follow the nets; else all are 1


def write_hypergraph(path: Pathlike, hypergraph: Hypergraph, format: str) -> None:
    """Write the hypergraph in the named format, whatever the path's suffix."""
    write_text(path, format_named(format).text(hypergraph))


def read_hypergraph(path: Pathlike, format: str | None = None) -> Hypergraph:
    """Read a hypergraph in the named format, or in the one the path's suffix tells."""
    chosen = _of_suffix(Path(path)) if format is None else format_named(format)
    return chosen.parse(read_text(path), str(path))


def format_named(name: str) -> Format:
    """Return the format of this name."""
    if name not in FORMATS:
        raise UsageError(f"unknown hypergraph format {name!r}; choose {' or '.join(FORMATS)}")
    return FORMATS[name]


def _of_suffix(path: Path) -> Format:
    for format in FORMATS.values():
        if path.suffix.lower() in format.suffixes:
            return format
    known = ", ".join(suffix for format in FORMATS.values() for suffix in format.suffixes)
    raise FileError(
        f"cannot tell the format of {path} from its suffix; rename it to one of {known}, "
        f"or give --format {' or '.join(FORMATS)}"
    )


def patoh_text(hypergraph: Hypergraph) -> str:
    """Return the hypergraph as a PaToH file with base 0, costs and weights."""
    h, unit = hypergraph, cost_unit(hypergraph)
    comments = "".join(unit_comments(h, unit))
    header = f"0 {h.num_vertices} {h.num_nets} {h.num_pins} 3\n"
    nets = "".join(_net_lines(h, unit, first_vertex=0))
    return comments + header + nets + " ".join(map(str, h.weights.tolist())) + "\n"


def parse_patoh(text: str, name: str) -> Hypergraph:
    """Read a PaToH file; `name` stands for it in errors. What the file does not weigh weighs 1."""
    rows = parse_rows(text, name)
    return _hypergraph(rows, _patoh_header(rows))


def _patoh_header(rows: Rows) -> _Header:
    base, cells, nets, pins, flag, *constraints = rows.header(_PATOH, 5, 6)
    if base not in (0, 1):
        raise rows.fault(0, f"the base in the header is {base}; it must be 0 or 1")
    if flag not in (0, 1, 2, 3):
        raise rows.fault(0, f"the flag in the header is {flag}; it must be 0, 1, 2 or 3")
    if constraints not in ([], [1]):
        raise rows.fault(0, f"cells with {constraints[0]} weights each; only one balance constraint is supported")
    return _Header(cells, nets, pins, base, has_costs=flag in (2, 3), has_weights=flag in (1, 3))


def hmetis_text(hypergraph: Hypergraph) -> str:
    """Return the hypergraph as an hMETIS file with costs and weights."""
    h, unit = hypergraph, cost_unit(hypergraph)
    comments = "".join(unit_comments(h, unit))
    header = f"{h.num_nets} {h.num_vertices} 11\n"
    nets = "".join(_net_lines(h, unit, first_vertex=1))
    return comments + header + nets + "\n".join(map(str, h.weights.tolist())) + "\n"


def parse_hmetis(text: str, name: str) -> Hypergraph:
    """Read an hMETIS file; `name` stands for it in errors. What the file does not weigh weighs 1."""
    rows = parse_rows(text, name)
    return _hypergraph(rows, _hmetis_header(rows))


def _hmetis_header(rows: Rows) -> _Header:
    nets, vertices, *fmt = rows.header(_HMETIS, 2, 3)
    if fmt not in ([], [0], [1], [10], [11]):
        raise rows.fault(0, f"the fmt in the header is {fmt[0]}; it must be 0, 1, 10 or 11")
    has_costs, has_weights = fmt in ([1], [11]), fmt in ([10], [11])
    return _Header(vertices, nets, None, 1, has_costs=has_costs, has_weights=has_weights)


def _net_lines(hypergraph: Hypergraph, cost_unit: int, first_vertex: int) -> Iterator[str]:
    """Yield one line per net: its cost in the given unit, then its pins."""
    offsets, pins = hypergraph.offsets.tolist(), hypergraph.pins + first_vertex
    for net, cost in enumerate((hypergraph.costs // cost_unit).tolist()):
        yield f"{cost} {' '.join(map(str, pins[offsets[net] : offsets[net + 1]].tolist()))}\n"


def _hypergraph(rows: Rows, header: _Header) -> Hypergraph:
    """Check the rows against their header and return the hypergraph; it has no labels."""
    _check_sizes(rows, header)
    costs, offsets, pins = _nets(rows, header)
    weights = _weights(rows, header)
    return Hypergraph(offsets, pins, weights, costs_in_bytes(rows, costs), work_unit(rows))


def _check_sizes(rows: Rows, header: _Header) -> None:
    """Refuse sizes that the file is too short for, before anything of that size is made."""
    if header.num_vertices == 0:
        raise rows.fault(0, "the header promises 0 vertices; a hypergraph has at least one")
    sizes = {"vertices": header.num_vertices, "nets": header.num_nets, "pins": header.num_pins or 0}
    for what, size in sizes.items():
        if size > max(rows.num_characters, MOST_UNSEEN):
            raise rows.fault(0, f"the header promises {size} {what} in a file of {rows.num_characters} characters")
    if rows.num_rows - 1 < header.num_nets:
        raise rows.fault(-1, f"the file ends after {rows.num_rows - 1} of {header.num_nets} nets")


def _nets(rows: Rows, header: _Header) -> tuple[Ints, Ints, Ints]:
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


def _check_pins(rows: Rows, header: _Header, offsets: Ints, pins: Ints) -> None:
    # The count comes first: where a net line is missing, the weights were read as pins.
    if header.num_pins is not None and len(pins) != header.num_pins:
        raise rows.fault(0, f"the header promises {header.num_pins} pins, but the nets have {len(pins)}")
    first, last = header.first_vertex, header.first_vertex + header.num_vertices - 1
    outside = np.flatnonzero((pins < first) | (pins > last))
    if len(outside):
        net = int(np.searchsorted(offsets, outside[0], side="right")) - 1
        raise rows.fault(1 + net, f"pin {pins[outside[0]]} is outside {first}..{last}")


def _weights(rows: Rows, header: _Header) -> Ints:
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


FORMATS = {
    "patoh": Format(patoh_text, parse_patoh, (".patoh", ".u")),
    "hmetis": Format(hmetis_text, parse_hmetis, (".hgr",)),
}
