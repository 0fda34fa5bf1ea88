"""Hypergraphs in hMETIS's text format, which KaHyPar and most other partitioners read too.

nets vertices [fmt]     fmt: 0 nothing, 1 net costs, 10 vertex weights, 11 both
[cost] pin pin ...      one line per net, vertices counted from 1
weight                  one line per vertex
"""

from hyperplace.files.netlines import Header, hypergraph_from, net_lines
from hyperplace.files.rows import Rows, parse_rows
from hyperplace.files.units import cost_unit, unit_comments
from hyperplace.values.hypergraph import Hypergraph

_HEADER = "nets vertices [fmt]"


def hmetis_text(hypergraph: Hypergraph) -> str:
    """Return the hypergraph as an hMETIS file with costs and weights."""
    h, unit = hypergraph, cost_unit(hypergraph)
    comments = "".join(unit_comments(h, unit))
    header = f"{h.num_nets} {h.num_vertices} 11\n"
    nets = "".join(net_lines(h, unit, first_vertex=1))
    return comments + header + nets + "\n".join(map(str, h.weights.tolist())) + "\n"


def parse_hmetis(text: str, name: str) -> Hypergraph:
    """Read an hMETIS file; `name` stands for it in errors. What the file does not weigh weighs 1."""
    rows = parse_rows(text, name)
    return hypergraph_from(rows, _header(rows))


def _header(rows: Rows) -> Header:
    nets, vertices, *fmt = rows.header(_HEADER, 2, 3)
    if fmt not in ([], [0], [1], [10], [11]):
        raise rows.fault(0, f"the fmt in the header is {fmt[0]}; it must be 0, 1, 10 or 11")
    has_costs, has_weights = fmt in ([1], [11]), fmt in ([10], [11])
    return Header(vertices, nets, None, 1, has_costs=has_costs, has_weights=has_weights)
