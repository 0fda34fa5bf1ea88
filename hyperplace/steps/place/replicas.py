"""Who holds copies of which weights: the parts that compute rows of a filter, besides the one that owns it."""

import numpy as np

from hyperplace.steps.place.assignment import Assignment
from hyperplace.values.arrays import Ints
from hyperplace.values.graph import Layer
from hyperplace.values.plan import Replica
from hyperplace.values.ranges import Mask, ranges_of


def replicas(layer: Layer, assignment: Assignment) -> tuple[Replica, ...]:
    """Return a replica per part and owner, where the layer has parameters, buffers or statistics.

    Also where nothing is exchanged, so that buffers and frozen weights have one owner.
    """
    if not (layer.parameters or layer.filter_statistics_bytes):
        return ()
    owner_of_pattern, parts_of_pattern = _owners(assignment)
    found = []
    for part in np.unique(assignment.patterns).tolist():
        copies = parts_of_pattern[:, part] & (owner_of_pattern != part)
        for owner in np.unique(owner_of_pattern[copies]).tolist():
            numbers = np.flatnonzero(copies & (owner_of_pattern == owner))
            filters = np.flatnonzero(np.isin(assignment.pattern_of, numbers))
            sizes = len(filters) * layer.filter_parameter_bytes, len(filters) * layer.filter_statistics_bytes
            found.append(Replica(layer.name, part, owner, ranges_of(filters), *sizes))
    return tuple(found)


def _owners(assignment: Assignment) -> tuple[Ints, Mask]:
    """Return for every pattern the part with most rows, and which parts have any."""
    rows = np.zeros((len(assignment.patterns), int(assignment.patterns.max()) + 1), np.int64)
    for column, length in enumerate(assignment.num_rows.tolist()):
        rows[np.arange(len(rows)), assignment.patterns[:, column]] += length
    return rows.argmax(axis=1), rows > 0
