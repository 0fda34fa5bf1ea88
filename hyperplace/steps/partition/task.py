"""What every partitioner is asked: a hypergraph, the number of parts, how much each may hold. Checked once, here."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from hyperplace.errors import PartitionerOverflow, UsageError
from hyperplace.values.arrays import Floats
from hyperplace.values.capacities import Capacities
from hyperplace.values.hypergraph import Hypergraph
from hyperplace.values.ranges import Mask

INT64_SAFE = 2.0**62


@dataclass(frozen=True)
class Task:
    """A task that exists can be given to any partitioner."""

    hypergraph: Hypergraph
    num_parts: int
    imbalance: float
    seed: int = 0
    time_limit_s: float = 300.0
    stop: Callable[[], bool] = lambda: False
    given: Capacities | None = None  # instead of the same for all parts, by the imbalance
    barred: Mask | None = None  # [vertex, part]: where it must not be

    def __post_init__(self) -> None:
        if faults := list(self._faults()):
            raise UsageError("; ".join(faults))
        for what, numbers, times in (("work", "weights", 1), ("net cost", "costs", self.num_parts)):
            total = getattr(self.hypergraph, numbers).sum(dtype=np.float64) * times
            if total >= INT64_SAFE:
                raise PartitionerOverflow(f"the {what} sums up to {total:.3g}, more than 2^62; use a larger unit")

    def _faults(self) -> Iterator[str]:
        num_vertices = self.hypergraph.num_vertices
        if not _is_int(self.num_parts) or self.num_parts < 1:
            yield f"k={self.num_parts} is not a whole number of parts from 1 up"
        elif self.num_parts > num_vertices:
            yield f"k={self.num_parts} is more than the {num_vertices:,} vertices; lower --k or raise --blocks"
        if not math.isfinite(self.imbalance) or self.imbalance < 0:
            yield f"imbalance {self.imbalance} is not a finite number from 0 up"
        if self.given and self.given.num_parts != self.num_parts:
            yield f"{self.given} are not of k={self.num_parts} parts"
        if not _is_int(self.seed) or self.seed < 0:
            yield f"seed {self.seed} is not a whole number from 0 up"
        if not math.isfinite(self.time_limit_s) or self.time_limit_s <= 0:
            yield f"time limit {self.time_limit_s} s is not a finite number above 0"

    @cached_property
    def capacities(self) -> Capacities:
        return self.given or Capacities.even(self.num_parts, self.imbalance)

    @cached_property
    def limits(self) -> Floats:
        """The most work of every part."""
        return self.capacities.of(self.hypergraph.total_weight)

    @cached_property
    def is_open(self) -> Mask:
        """[vertex, part]: where it may be."""
        everywhere = np.ones((self.hypergraph.num_vertices, self.num_parts), bool)
        return everywhere if self.barred is None else ~self.barred

    def with_useful_nets(self) -> "Task":
        """Return the task with the nets that can cost anything: every pin once, two pins or more, a cost above 0.

        Every partition has the same volume as before. The labels of the nets are gone, and so are all others.
        """
        hypergraph = self.hypergraph
        pin_keys = np.unique(hypergraph.net_of_pin * hypergraph.num_vertices + hypergraph.pins)
        net_of_pin, pins = np.divmod(pin_keys, hypergraph.num_vertices)
        sizes = np.bincount(net_of_pin, minlength=hypergraph.num_nets)
        useful = (sizes > 1) & (hypergraph.costs > 0)
        offsets = np.concatenate(([0], np.cumsum(sizes[useful])))
        nets = Hypergraph(offsets, pins[useful[net_of_pin]], hypergraph.weights, hypergraph.costs[useful])
        return replace(self, hypergraph=nets)


def _is_int(value: object) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)
