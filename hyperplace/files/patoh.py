"""Hypergraphs in PaToH's text format, where a vertex is called a cell.

base cells nets pins flag [constraints]     flag: 0 nothing, 1 cell weights, 2 net costs, 3 both
[cost] pin pin ...                          one line per net
weight weight ...                           of all cells, on as many lines as one likes
"""

from hyperplace.files.netlines import Header, hypergraph_from, net_lines
from hyperplace.files.rows import Rows, parse_rows
from hyperplace.files.units import cost_unit, unit_comments
from hyperplace.values.hypergraph import Hypergraph

_HEADER = "base cells nets pins flag [constraints]"


def patoh_text(hypergraph: Hypergraph) -> str:
    """Return the hypergraph as a PaToH file with base 0, costs and weights."""
    h, unit = hypergraph, cost_unit(hypergraph)
    comments = "".join(unit_comments(h, unit))
    header = f"0 {h.num_vertices} {h.num_nets} {h.num_pins} 3\n"
    nets = "".join(net_lines(h, unit, first_vertex=0))
    return comments + header + nets + " ".join(map(str, h.weights.tolist())) + "\n"


def parse_patoh(text: str, name: str) -> Hypergraph:
    """Read a PaToH file; `name` stands for it in errors. What the file does not weigh weighs 1."""
    rows = parse_rows(text, name)
    return hypergraph_from(rows, _header(rows))


def _header(rows: Rows) -> Header:
    base, cells, nets, pins, flag, *constraints = rows.header(_HEADER, 5, 6)
    if base not in (0, 1):
        raise rows.fault(0, f"the base in the header is {base}; it must be 0 or 1")
    if flag not in (0, 1, 2, 3):
        raise rows.fault(0, f"the flag in the header is {flag}; it must be 0, 1, 2 or 3")
    if constraints not in ([], [1]):
        raise rows.fault(0, f"cells with {constraints[0]} weights each; only one balance constraint is supported")
    return Header(cells, nets, pins, base, has_costs=flag in (2, 3), has_weights=flag in (1, 3))
