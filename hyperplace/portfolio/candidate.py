"""A result of a search: a hypergraph with its partition, and what it costs; to and from owners of filters."""

from dataclasses import dataclass

import numpy as np

from hyperplace.portfolio.problem import Problem
from hyperplace.values.arrays import Ints
from hyperplace.values.hypergraph import Hypergraph
from hyperplace.values.partition import Partition, is_feasible, volume_bytes, work_per_part

Found = tuple[Hypergraph, Partition]
Owners = dict[str, Ints]  # layer -> the part of every filter, or of every filter (line) and row (column)


@dataclass(frozen=True)
class Candidate:
    """A hypergraph with its partition, and what it costs."""

    hypergraph: Hypergraph
    partition: Partition
    volume_bytes: int
    is_feasible: bool

    @property
    def found(self) -> Found:
        return self.hypergraph, self.partition


def judged(hypergraph: Hypergraph, found: Partition, imbalance: float) -> Candidate:
    """Return a partition with its cost, counted from scratch."""
    feasible = is_feasible(work_per_part(hypergraph, found), imbalance)
    return Candidate(hypergraph, found, volume_bytes(hypergraph, found), feasible)


def cut(problem: Problem, owners: Owners, found_by: str) -> Candidate:
    """Return a known placement on blocks cut also where owners change; kernels stay with their filter's owner."""
    cells = {layer: owner.reshape(len(owner), -1) for layer, owner in owners.items()}
    cuts = {layer: set(_changes(owner)) for layer, owner in cells.items()}
    hypergraph = problem.hypergraph(cuts, {row for owner in cells.values() for row in _changes(owner.T)})
    labels = hypergraph.labels
    assert labels is not None
    names = [labels.layers[number] for number in labels.layer_of]
    places = zip(names, labels.filter_start, np.maximum(labels.row_start, 0), strict=True)
    part_of = [cells[name][start, min(row, cells[name].shape[1] - 1)] for name, start, row in places]
    found = Partition(np.array(part_of), problem.settings.k, found_by)
    return judged(hypergraph, found, problem.settings.imbalance)


def _changes(owner: Ints) -> list[int]:
    """Return the lines that differ from the one before."""
    changed: list[int] = (np.flatnonzero((owner[1:] != owner[:-1]).any(axis=1)) + 1).tolist()
    return changed


def owners_of(candidate: Candidate) -> Owners:
    """Return the owner of every filter of every layer of a coarse candidate."""
    labels = candidate.hypergraph.labels
    assert labels is not None
    sizes = labels.filter_stop - labels.filter_start
    owner, layer_of = np.repeat(candidate.partition.part_of, sizes), np.repeat(labels.layer_of, sizes)
    bounds = np.searchsorted(layer_of, np.arange(len(labels.layers) + 1))
    return {name: owner[bounds[i] : bounds[i + 1]] for i, name in enumerate(labels.layers)}
