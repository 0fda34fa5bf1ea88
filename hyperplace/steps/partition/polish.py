"""Simulated annealing on the vertices of a small hypergraph, from a given partition: what a fine grid gains from it.

A kernel of the fine grain is in two nets, its block's and its filter's, so a move is a few additions; numba makes
millions of them a second. A general partitioner gives the start, and this finds what its coarsening has hidden.
"""
# ruff: noqa: NPY002 - compiled code draws from numba's own generator, which is seeded through the old names

from dataclasses import replace
from typing import NamedTuple

import numba
import numpy as np

from hyperplace.values.arrays import Floats, Ints
from hyperplace.values.hypergraph import Hypergraph
from hyperplace.values.partition import Partition, balance_limit, volume_bytes

MOVES_PER_VERTEX = 10_000
MOST_MOVES = 10_000_000  # about three seconds
HEATS = (0.4, 0.1, 0.02, 0.005)  # of the volume of an average part: a net or two may be lost for a moment, then less


class Nets(NamedTuple):
    """The hypergraph both ways: the pins of every net, and the nets of every vertex."""

    offsets: Ints
    pins: Ints
    nets_of: Ints
    nets: Ints
    costs: Floats
    weights: Floats
    limit: float


class State(NamedTuple):
    """The part of every vertex, how many pins of every net are on every part, and the load of every part."""

    part_of: Ints
    pins_on: Ints
    load: Floats


def polish(
    hypergraph: Hypergraph, found: Partition, imbalance: float, *, seed: int = 0, most_moves: int = MOST_MOVES
) -> Partition:
    """Return a partition at least as good as a balanced one, within the same imbalance; `most_moves` at each heat."""
    nets = _nets(hypergraph, balance_limit(hypergraph.total_weight, found.num_parts, imbalance))
    average_bytes = volume_bytes(hypergraph, found) / found.num_parts
    best = np.array(found.part_of)
    num_moves = min(most_moves, MOVES_PER_VERTEX * hypergraph.num_vertices)
    for heat in HEATS:
        _anneal(nets, _state(nets, replace(found, part_of=best)), best, average_bytes * heat, num_moves, seed)
    return replace(found, part_of=best)


def _nets(hypergraph: Hypergraph, limit: float) -> Nets:
    order = np.argsort(hypergraph.pins, kind="stable")
    nets_of = np.searchsorted(hypergraph.pins[order], np.arange(hypergraph.num_vertices + 1))
    return Nets(
        hypergraph.offsets,
        hypergraph.pins,
        nets_of,
        hypergraph.net_of_pin[order],
        hypergraph.costs.astype(np.float64),
        hypergraph.weights.astype(np.float64),
        limit,
    )


def _state(nets: Nets, found: Partition) -> State:
    pins_on = np.zeros((len(nets.costs), found.num_parts), np.int64)
    np.add.at(pins_on, (np.repeat(np.arange(len(nets.costs)), np.diff(nets.offsets)), found.part_of[nets.pins]), 1)
    load = np.zeros(found.num_parts)
    np.add.at(load, found.part_of, nets.weights)
    return State(np.array(found.part_of), pins_on, load)


@numba.njit(cache=True)
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
    state.load[source] -= nets.weights[vertex]
    state.load[target] += nets.weights[vertex]
    return growth


@numba.njit(cache=True)
def _neighbour(nets: Nets, vertex: int) -> int:
    """Draw a vertex that shares a net with this one."""
    first, last = nets.nets_of[vertex], nets.nets_of[vertex + 1]
    if first == last:
        return vertex
    net = nets.nets[np.random.randint(first, last)]
    return nets.pins[np.random.randint(nets.offsets[net], nets.offsets[net + 1])]


@numba.njit(cache=True)
def _overload(nets: Nets, state: State, one: int, other: int) -> float:
    return max(0.0, state.load[one] - nets.limit) + max(0.0, state.load[other] - nets.limit)


@numba.njit(cache=True, nogil=True)
def _anneal(nets: Nets, state: State, best: Ints, hot: float, num_moves: int, seed: int) -> None:
    """Keep the best balanced partition seen in `best`; it starts as the state's own, which is balanced."""
    np.random.seed(seed)
    volume, lowest, excess, heat = 0.0, 0.0, 0.0, hot
    price = 100 * hot / nets.limit if nets.limit > 0 else 0.0
    cooling, rising = 0.001 ** (1000.0 / num_moves), 300.0 ** (1000.0 / num_moves)
    for step in range(num_moves):
        if step % 1000 == 999:
            heat, price = heat * cooling, price * rising
        vertex = np.random.randint(len(state.part_of))
        other = _neighbour(nets, vertex)
        source, target = state.part_of[vertex], state.part_of[other]
        if source == target:
            continue
        swaps = np.random.random() < 0.3
        back = np.random.randint(len(state.part_of)) if swaps else vertex
        swaps = swaps and state.part_of[back] == target
        before = _overload(nets, state, source, target)
        growth = _move(nets, state, vertex, target)
        if swaps:
            growth += _move(nets, state, back, source)
        more = _overload(nets, state, source, target) - before
        worse = growth + price * more
        if worse <= 0 or np.random.random() < np.exp(-worse / heat):
            volume, excess = volume + growth, excess + more
            if volume < lowest - 0.5 and excess <= 1e-9 * nets.limit and state.load.max() <= nets.limit:
                lowest, best[:] = volume, state.part_of
        else:
            if swaps:
                _move(nets, state, back, target)
            _move(nets, state, vertex, source)
