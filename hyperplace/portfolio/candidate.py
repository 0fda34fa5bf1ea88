"""A result of a search: a hypergraph with its partition, and what it costs; to and from owners of filters."""

from dataclasses import dataclass

import numpy as np

from hyperplace.portfolio.problem import Problem
from hyperplace.values.arrays import Ints
from hyperplace.values.hypergraph import Hypergraph
from hyperplace.values.partition import Partition, is_feasible, volume_bytes, work_per_part

Owners = dict[str, Ints]  # layer -> the part of every filter


@dataclass(frozen=True)
class Candidate:
    """A hypergraph with its partition, and what it costs."""

    hypergraph: Hypergraph
    partition: Partition
    volume_bytes: int
    is_feasible: bool


def judged(hypergraph: Hypergraph, found: Partition, imbalance: float) -> Candidate:
    """Return a partition with its cost, counted from scratch."""
    feasible = is_feasible(work_per_part(hypergraph, found), imbalance)
    return Candidate(hypergraph, found, volume_bytes(hypergraph, found), feasible)


def cut(problem: Problem, owners: Owners, found_by: str) -> Candidate:
    """Return a known placement on blocks cut also where owners change; kernels stay with their filter's owner."""
    cuts = {layer: {int(edge) + 1 for edge in np.flatnonzero(np.diff(owner))} for layer, owner in owners.items()}
    hypergraph = problem.hypergraph(cuts)
    labels = hypergraph.labels
    assert labels is not None
    names = [labels.layers[number] for number in labels.layer_of]
    part_of = [owners[name][start] for name, start in zip(names, labels.filter_start, strict=True)]
    found = Partition(np.array(part_of), problem.settings.k, found_by)
    return judged(hypergraph, found, problem.settings.imbalance)


def owners_of(candidate: Candidate) -> Owners:
    """Return the owner of every filter of every layer of a coarse candidate."""
    labels = candidate.hypergraph.labels
    assert labels is not None
    sizes = labels.filter_stop - labels.filter_start
    owner, layer_of = np.repeat(candidate.partition.part_of, sizes), np.repeat(labels.layer_of, sizes)
    bounds = np.searchsorted(layer_of, np.arange(len(labels.layers) + 1))
    return {name: owner[bounds[i] : bounds[i + 1]] for i, name in enumerate(labels.layers)}
