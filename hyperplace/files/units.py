"""The units of costs and weights, kept in two comment lines that other programs skip.

    % net costs are in units of 4096 bytes
    % vertex weights are in units of 196608 flops

PaToH and hMETIS add up costs in 32-bit integers, so costs whose sum is larger are divided by what they share.
"""

import re
from collections.abc import Iterator

import numpy as np

from hyperplace.errors import PartitionerOverflow
from hyperplace.files.rows import Rows, line_fault
from hyperplace.values.arrays import Ints
from hyperplace.values.hypergraph import INT32_MAX, Hypergraph

_COSTS = re.compile(r"% net costs are in units of (\d{1,40}) bytes(;.*)?", re.ASCII)
_WEIGHTS = re.compile(r"% vertex weights are in units of (.+)")
_INT64_MAX = 2**63 - 1


def cost_unit(hypergraph: Hypergraph) -> int:
    """Return how many bytes one unit of written cost stands for: 1, or the costs' greatest common divisor."""
    costs = hypergraph.costs
    if sum(costs.tolist()) <= INT32_MAX:
        return 1
    unit = int(np.gcd.reduce(costs))
    if int(costs.max()) // unit > INT32_MAX:
        raise PartitionerOverflow(
            f"{_net(hypergraph, int(costs.argmax()))} costs {costs.max():,} bytes, too large for 32 bits "
            f"even in units of {unit} bytes, the largest that keeps all costs exact; lower --batch"
        )
    return unit


def _net(hypergraph: Hypergraph, number: int) -> str:
    labels = hypergraph.labels
    return f"net {number}" + (f" of layer {labels.layers[labels.net_layer[number]]}" if labels else "")


def unit_comments(hypergraph: Hypergraph, unit: int) -> Iterator[str]:
    """Yield the comment lines a file with this unit of cost starts with; none where nothing needs saying."""
    total = sum(hypergraph.costs.tolist())
    if total > INT32_MAX:
        excess = "; their sum exceeds 32 bits" if total // unit > INT32_MAX else ""
        yield f"% net costs are in units of {unit} bytes{excess}\n"
    if hypergraph.work_unit:
        one_line = " ".join(hypergraph.work_unit.split())  # a line break would end the comment
        yield f"% vertex weights are in units of {one_line}\n"


def costs_in_bytes(rows: Rows, costs: Ints) -> Ints:
    """Return the costs times the unit that a comment of the file names."""
    most = int(costs.max(initial=1))
    for comment in rows.comments:
        if found := _COSTS.fullmatch(comment.text):
            unit = int(found[1])
            if not 1 <= unit <= _INT64_MAX // most:
                what = f"a unit of {unit} bytes makes net costs of up to {most * unit} bytes; that cannot be"
                raise line_fault(rows.name, comment.line, what)
            return costs * unit
    return costs


def work_unit(rows: Rows) -> str:
    """Return the unit of weight that a comment of the file names, or nothing."""
    found = (_WEIGHTS.fullmatch(comment.text) for comment in rows.comments)
    return next((match[1] for match in found if match), "")
