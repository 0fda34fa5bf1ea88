"""Simulated annealing on the vertices of a small hypergraph, from a given partition: what a fine grid gains from it.

A kernel of the fine grain is in two nets, its block's and its filter's, so a move is a few additions; numba makes
millions of them a second. A general partitioner gives the start, and this finds what its coarsening has hidden.
"""
# ruff: noqa: NPY002 - compiled code draws from numba's own generator, which is seeded through the old names

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from hyperplace.machine_code import entry, inlined, inner
from hyperplace.values.arrays import Floats, Ints
from hyperplace.values.capacities import Capacities
from hyperplace.values.hypergraph import Hypergraph
from hyperplace.values.partition import Partition, volume_bytes
from hyperplace.values.ranges import Mask

MOVES_PER_VERTEX = 10_000
MOST_MOVES = 10_000_000  # about three seconds
CHUNK = 500_000  # moves between two looks at `stop`
HEATS = (0.4, 0.1, 0.02, 0.005)  # of the volume of an average part: a net or two may be lost for a moment, then less


class Nets(NamedTuple):
    """The hypergraph both ways: the pins of every net, and the nets of every vertex."""

    offsets: Ints
    pins: Ints
    nets_of: Ints
    nets: Ints
    costs: Floats
    weights: Floats
    slack: float  # of work, which rounding may add


class State(NamedTuple):
    """The part of every vertex, how many pins of every net are on every part, and the load of every part."""

    part_of: Ints
    pins_on: Ints
    load: Floats  # [part, 0]: its work; [part, 1]: the most it may have
    barred: Mask  # [vertex, part]: where it must not go


def polish(
    hypergraph: Hypergraph,
    found: Partition,
    capacities: Capacities,
    *,
    seed: int = 0,
    most_moves: int = MOST_MOVES,
    barred: Mask | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> Partition:
    """Return a partition at least as good as a balanced one, within the capacities; `most_moves` at each heat.

    `barred` says on which parts every vertex must not be; it starts on none of them.
    """
    limits = capacities.of(hypergraph.total_weight)
    nets = _nets(hypergraph, 1e-9 * float(limits.max()))
    average_bytes = volume_bytes(hypergraph, found) / found.num_parts
    best = np.array(found.part_of)
    barred = np.zeros((len(best), found.num_parts), bool) if barred is None else barred
    num_moves = min(most_moves, MOVES_PER_VERTEX * hypergraph.num_vertices)
    for heat in HEATS:
        state, hot = _state(nets, limits, replace(found, part_of=best), barred), average_bytes * heat
        price = 100 * hot / float(limits.max()) if limits.max() > 0 else 0.0
        course = np.array([0.0, 0.0, 0.0, hot, price])
        for first in range(0, num_moves, CHUNK):
            if stop():
                break
            _anneal(nets, state, best, course, (first, min(first + CHUNK, num_moves), num_moves), seed)
    return replace(found, part_of=best)


def warm_up() -> None:
    """Polish two vertices, so that all that is compiled has been."""
    pair = Hypergraph(np.array([0, 2]), np.array([0, 1]), np.array([1, 1]), np.array([4]))
    polish(pair, Partition(np.array([0, 1]), 2), Capacities.even(2, 0.1), most_moves=10)


def _nets(hypergraph: Hypergraph, slack: float) -> Nets:
    order = np.argsort(hypergraph.pins, kind="stable")
    nets_of = np.searchsorted(hypergraph.pins[order], np.arange(hypergraph.num_vertices + 1))
    return Nets(
        hypergraph.offsets,
        hypergraph.pins,
        nets_of,
        hypergraph.net_of_pin[order],
        hypergraph.costs.astype(np.float64),
        hypergraph.weights.astype(np.float64),
        slack,
    )


def _state(nets: Nets, limits: Floats, found: Partition, barred: Mask) -> State:
    pins_on = np.zeros((len(nets.costs), found.num_parts), np.int64)
    np.add.at(pins_on, (np.repeat(np.arange(len(nets.costs)), np.diff(nets.offsets)), found.part_of[nets.pins]), 1)
    load = np.bincount(found.part_of, nets.weights, found.num_parts)
    return State(np.array(found.part_of), pins_on, np.stack([load, limits], axis=1), barred)


@inner()
def _move(nets: Nets, state: State, vertex: int, target: int) -> float:
    """Move a vertex and return by how many bytes the volume grows."""
    source, growth = state.part_of[vertex], 0.0
    for i in range(nets.nets_of[vertex], nets.nets_of[vertex + 1]):
        net = nets.nets[i]
        state.pins_on[net, source] -= 1
        if state.pins_on[net, source] == 0:
            growth -= nets.costs[net]
        if state.pins_on[net, target] == 0:
            growth += nets.costs[net]
        state.pins_on[net, target] += 1
    state.part_of[vertex] = target
    state.load[source, 0] -= nets.weights[vertex]
    state.load[target, 0] += nets.weights[vertex]
    return growth


@inner()
def _neighbour(nets: Nets, vertex: int) -> int:
    """Draw a vertex that shares a net with this one."""
    first, last = nets.nets_of[vertex], nets.nets_of[vertex + 1]
    if first == last:
        return vertex
    net = nets.nets[np.random.randint(first, last)]
    return nets.pins[np.random.randint(nets.offsets[net], nets.offsets[net + 1])]


@inner()
def _is_balanced(state: State) -> bool:
    return bool(np.all(state.load[:, 0] <= state.load[:, 1]))


@inlined()
def _overload(state: State, one: int, other: int) -> float:
    return max(0.0, state.load[one, 0] - state.load[one, 1]) + max(0.0, state.load[other, 0] - state.load[other, 1])


@entry(nogil=True)
def _anneal(nets: Nets, state: State, best: Ints, course: Floats, span: tuple[int, int, int], seed: int) -> None:
    """Make moves span[0]..span[1] of span[2]; keep the best balanced partition seen in `best`.

    It starts as the state's own, which is balanced. `course` is what goes on from span to span: volume and lowest
    volume against the start, excess, heat, and the price of excess.
    """
    if span[0] == 0:
        np.random.seed(seed)
    volume, lowest, excess, heat, price = course
    cooling, rising = 0.001 ** (1000.0 / span[2]), 300.0 ** (1000.0 / span[2])
    for step in range(span[0], span[1]):
        if step % 1000 == 999:
            heat, price = heat * cooling, price * rising
        vertex = np.random.randint(len(state.part_of))
        other = _neighbour(nets, vertex)
        source, target = state.part_of[vertex], state.part_of[other]
        if source == target or state.barred[vertex, target]:
            continue
        swaps = np.random.random() < 0.3
        back = np.random.randint(len(state.part_of)) if swaps else vertex
        swaps = swaps and state.part_of[back] == target and not state.barred[back, source]
        before = _overload(state, source, target)
        growth = _move(nets, state, vertex, target)
        if swaps:
            growth += _move(nets, state, back, source)
        more = _overload(state, source, target) - before
        worse = growth + price * more
        if worse <= 0 or np.random.random() < np.exp(-worse / heat):
            volume, excess = volume + growth, excess + more
            if volume < lowest - 0.5 and excess <= nets.slack and _is_balanced(state):
                lowest, best[:] = volume, state.part_of
        else:
            if swaps:
                _move(nets, state, back, target)
            _move(nets, state, vertex, source)
    course[0], course[1], course[2], course[3], course[4] = volume, lowest, excess, heat, price
