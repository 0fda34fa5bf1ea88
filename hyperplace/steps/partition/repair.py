"""Bring every part under its limit of work, at little extra volume; deterministic.

A move to a part with room comes first, and looks at the bytes. An exchange looks at the weights alone and may
overload the other part a little: the sum of the squared overloads falls with every step, so it ends, at zero or
stuck. The caller judges the result.
"""

import heapq
from dataclasses import dataclass
from typing import Any

import numpy as np

from hyperplace.steps.partition.task import Task
from hyperplace.values.arrays import Ints
from hyperplace.values.hypergraph import Hypergraph
from hyperplace.values.partition import Partition, work_per_part

NOTHING = -1


def repaired(task: Task, part_of: Ints) -> Ints:
    """Return the partition with vertices moved, then exchanged, out of overloaded parts; unchanged if none is.

    Before that they leave the parts where they must not be.
    """
    state = _State(task, kept_off(task, part_of))
    for part in state.overloaded():
        state.move_out(part)
    while (parts := state.overloaded()) and state.exchange_out(parts[0]):
        pass
    return state.part_of


def kept_off(task: Task, part_of: Ints) -> Ints:
    """Return the partition with every vertex where it may be, and what must move on the part with most room."""
    kept, room = (
        part_of.copy(),
        _whole_limits(task) - work_per_part(task.hypergraph, Partition(part_of, task.num_parts)),
    )
    for vertex in np.flatnonzero(~task.is_open[np.arange(len(kept)), kept]).tolist():
        target = int(np.argmax(np.where(task.is_open[vertex], room, -np.inf)))
        room[kept[vertex]] += task.hypergraph.weights[vertex]
        room[target] -= task.hypergraph.weights[vertex]
        kept[vertex] = target
    return kept


def packed(task: Task) -> Ints:
    """Return the vertices packed by weight alone: heaviest first, each to the part with most room."""
    heaviest_first = np.argsort(-task.hypergraph.weights, kind="stable")
    return pack_in_order(task.hypergraph.weights, heaviest_first, _whole_limits(task))


def pack_in_order(weights: Ints, order: Ints, limits: Ints) -> Ints:
    """Put the vertices, in this order, each on the part with most room then: the lightest, where limits are equal."""
    loads = [(-limit, part) for part, limit in enumerate(limits.tolist())]
    heapq.heapify(loads)
    part_of = np.zeros(len(weights), np.int64)
    for vertex in order.tolist():
        load, part = loads[0]
        part_of[vertex] = part
        heapq.heapreplace(loads, (load + int(weights[vertex]), part))
    return part_of


def _whole_limits(task: Task) -> Ints:
    """Return the limits of a task whose weights are whole, and so are their overloads: no noise to chase."""
    limits: Ints = np.floor(task.limits).astype(np.int64)
    return limits


@dataclass(frozen=True)
class _Exchange:
    """One vertex of an overloaded part for one of the target, or NOTHING; by how much the squared overload changes."""

    change: float
    ours: int
    theirs: int
    target: int


class _State:
    """A partition under repair: where every vertex is, and the work of every part."""

    def __init__(self, task: Task, part_of: Ints) -> None:
        self.hypergraph = task.hypergraph
        self.limits, self.is_open = _whole_limits(task), task.is_open
        self.part_of = part_of.copy()
        self.work = work_per_part(task.hypergraph, Partition(part_of, task.num_parts))

    def excess(self, part: int) -> int:
        return int(self.work[part]) - int(self.limits[part])

    def overloaded(self) -> list[int]:
        """Return the parts over their limit, the most overloaded first."""
        excess = self.work - self.limits
        return [int(part) for part in np.argsort(-excess, kind="stable") if excess[part] > 0]

    def move_out(self, source: int) -> None:
        """Move vertices to parts with room, fewest extra bytes per unit of relief first."""
        vertices = np.flatnonzero((self.part_of == source) & (self.hypergraph.weights > 0))
        extra_bytes = _extra_bytes(self.hypergraph, self.part_of, vertices, len(self.work))
        relief = np.minimum(self.hypergraph.weights[vertices], self.excess(source))
        for row in np.argsort(extra_bytes.min(axis=1) / relief, kind="stable").tolist():
            if self.excess(source) <= 0:
                return
            has_room = self.work + self.hypergraph.weights[vertices[row]] <= self.limits
            has_room &= self.is_open[vertices[row]]
            if has_room.any():
                self._move(vertices[row], int(np.where(has_room, extra_bytes[row], np.inf).argmin()))

    def exchange_out(self, source: int) -> bool:
        """Exchange a vertex for a lighter one of another part, or for nothing; false if that helps nowhere."""
        others = [part for part in range(len(self.work)) if part != source]
        best = min((self._best_exchange(source, target) for target in others), key=lambda found: found.change)
        # Overloads above 2^26 have squares that a float rounds: a gain must be larger than that error.
        if best.change > -max(1.0, 1e-9 * float(self.excess(source)) ** 2):
            return False
        if best.theirs != NOTHING:
            self._move(best.theirs, source)
        self._move(best.ours, best.target)
        return True

    def _best_exchange(self, source: int, target: int) -> "_Exchange":
        """Find the exchange after which the two parts have the least squared overload.

        That is a convex function of the work that changes sides, symmetric about the middle between what the source
        must lose and what the target may gain: the nearest to the middle is the best.
        """
        excess, room = self.excess(source), -self.excess(target)
        ours, our_weights = self._one_of_each_weight(source, target)
        theirs, their_weights = self._one_of_each_weight(target, source)
        if not len(ours):
            return _Exchange(0.0, NOTHING, NOTHING, target)
        theirs, their_weights = np.append(theirs, NOTHING), np.append(their_weights, 0)
        by_weight = np.argsort(their_weights, kind="stable")
        above = np.searchsorted(their_weights[by_weight], our_weights - (excess + room) / 2)
        near = by_weight[np.clip([above - 1, above], 0, len(theirs) - 1)]
        gives = our_weights - their_weights[near]
        change = _squared(excess - gives) + _squared(gives - room) - _squared(excess) - _squared(-room)
        side, row = np.unravel_index(int(change.argmin()), change.shape)
        return _Exchange(float(change[side, row]), int(ours[row]), int(theirs[near[side, row]]), target)

    def _one_of_each_weight(self, part: int, other: int) -> tuple[Ints, Ints]:
        """Return the first vertex of every weight in the part that may go to the other, and these weights."""
        vertices = np.flatnonzero((self.part_of == part) & self.is_open[:, other])
        weights, first = np.unique(self.hypergraph.weights[vertices], return_index=True)
        return vertices[first], weights

    def _move(self, vertex: int, target: int) -> None:
        self.work[self.part_of[vertex]] -= self.hypergraph.weights[vertex]
        self.work[target] += self.hypergraph.weights[vertex]
        self.part_of[vertex] = target


def _squared(overload: Any) -> Any:
    return np.maximum(overload, 0).astype(np.float64) ** 2


def _extra_bytes(hypergraph: Hypergraph, part_of: Ints, vertices: Ints, num_parts: int) -> Ints:
    """Return by how much the volume grows if one vertex moves: a row per vertex, a column per target part.

    The vertices are all of one part. A target that no pin of a net is on yet costs that net; a net whose only pin
    in the part is this vertex is freed.
    """
    row_of = np.full(hypergraph.num_vertices, -1)
    row_of[vertices] = np.arange(len(vertices))
    keys = hypergraph.net_of_pin * num_parts + part_of[hypergraph.pins]
    counts = np.bincount(keys, minlength=hypergraph.num_nets * num_parts).reshape(-1, num_parts)
    ours = row_of[hypergraph.pins] >= 0
    rows, nets = row_of[hypergraph.pins[ours]], hypergraph.net_of_pin[ours]
    source = part_of[vertices[0]]
    freed = np.bincount(rows, hypergraph.costs[nets] * (counts[nets, source] == 1), minlength=len(vertices))
    extra = np.empty((len(vertices), num_parts))
    for part in range(num_parts):
        entered = np.bincount(rows, hypergraph.costs[nets] * (counts[nets, part] == 0), minlength=len(vertices))
        extra[:, part] = entered - freed
    return extra.astype(np.int64)
