"""Every layer on all parts, by filters or by rows, in proportion to the parts' speeds: a hybrid hypergraph -> parts.

What `horizontal` and `dataparallel` are for equal parts. Layers split by rows exchange gradients of their weights, once
for a mini-batch and while others compute; layers split by filters exchange maps, and wait for them.
"""

from collections.abc import Sequence

import numpy as np

from hyperplace.steps.partition.baselines import with_inputs
from hyperplace.values.arrays import Floats, Ints
from hyperplace.values.hypergraph import Hypergraph, Labels


def dealt(hypergraph: Hypergraph, shares: Sequence[float], *, by_rows: bool) -> Ints:
    """Return the part of every vertex; one with all filters of its layer, or rows, goes where their middle falls."""
    labels = hypergraph.labels
    assert labels is not None, "built from a model"
    middle = _middle_of_filters(labels)
    if by_rows:
        batch = max(int(labels.row_stop.max()), 1)
        middle = np.where(labels.row_start >= 0, (labels.row_start + labels.row_stop) / (2 * batch), middle)
    ends = np.cumsum(shares)[:-1] / sum(shares)
    return with_inputs(hypergraph, np.searchsorted(ends, middle, "right").astype(np.int64))


def _middle_of_filters(labels: Labels) -> Floats:
    """Return where the middle of every vertex lies among its layer's filters, from 0 to 1."""
    num_filters = np.zeros(len(labels.layers), np.int64)
    np.maximum.at(num_filters, labels.layer_of, labels.filter_stop)
    return (labels.filter_start + labels.filter_stop) / (2 * num_filters[labels.layer_of])
