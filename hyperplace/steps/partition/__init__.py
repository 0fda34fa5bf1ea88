"""Hypergraph -> Partition: the general partitioners, each in a process of its own, and the baselines."""

from hyperplace.steps.partition.choose import PARTITIONERS, balanced, partition

__all__ = ["PARTITIONERS", "balanced", "partition"]
