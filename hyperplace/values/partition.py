"""Which part every vertex belongs to, and what that costs, recomputed from scratch."""

from dataclasses import dataclass

import numpy as np

from hyperplace.errors import HyperplaceError
from hyperplace.values.arrays import ArrayValue, Ints, frozen_ints
from hyperplace.values.hypergraph import Hypergraph


@dataclass(frozen=True, eq=False, repr=False)
class Partition(ArrayValue):
    """part_of[v] is the part of vertex v, 0 .. num_parts - 1; a part may be empty.

    `bound_bytes` is a proven lower bound on the volume of any balanced partition, where there is one; `is_cut_short`
    says that a time limit or an interrupt ended the search, so that another run may find another partition.
    """

    part_of: Ints
    num_parts: int
    found_by: str = ""
    bound_bytes: int | None = None
    is_cut_short: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "part_of", frozen_ints(self.part_of))
        outside = np.flatnonzero((self.part_of < 0) | (self.part_of >= self.num_parts))
        if len(outside):
            raise HyperplaceError(
                f"vertex {outside[0]} is on part {self.part_of[outside[0]]}, outside 0..{self.num_parts - 1}"
            )

    def __repr__(self) -> str:
        by = f" by {self.found_by}" if self.found_by else ""
        return f"Partition({len(self.part_of):,} vertices into {self.num_parts} parts{by})"


def work_per_part(hypergraph: Hypergraph, partition: Partition) -> Ints:
    """Return the summed vertex weight of every part."""
    work = np.zeros(partition.num_parts, np.int64)
    np.add.at(work, partition.part_of, hypergraph.weights)
    return work


def connectivity(hypergraph: Hypergraph, partition: Partition) -> Ints:
    """Return lambda of every net: the number of parts its pins touch."""
    touched = np.unique(hypergraph.net_of_pin * partition.num_parts + partition.part_of[hypergraph.pins])
    return np.bincount(touched // partition.num_parts, minlength=hypergraph.num_nets)


def volume_per_net(hypergraph: Hypergraph, partition: Partition) -> Ints:
    """Return (lambda - 1) * cost of every net, in bytes."""
    return (connectivity(hypergraph, partition) - 1) * hypergraph.costs


def volume_bytes(hypergraph: Hypergraph, partition: Partition) -> int:
    """Return the connectivity volume: what crosses between parts in a forward pass."""
    return int(volume_per_net(hypergraph, partition).sum())


def balance_limit(total_weight: float, num_parts: int, imbalance: float) -> float:
    """Return the most work a part may have; never more than there is."""
    return min(1 + imbalance, num_parts) * total_weight / num_parts


def max_over_avg(work: Ints) -> float:
    """Return heaviest part / average part; 1.0 where there is no work at all."""
    total = int(work.sum())
    return int(work.max()) * len(work) / total if total else 1.0


def is_feasible(work: Ints, imbalance: float) -> bool:
    return bool(work.max() <= balance_limit(int(work.sum()), len(work), imbalance))
