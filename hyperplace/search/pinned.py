"""A search with pins: settle which parts may have what, then search each such choice as if there were no other.

A pin to a part leaves nothing to choose. Layers kept together, or on a few parts at most, may be on any: every choice
is tried of which another is not the same with parts renamed, those first that are most like the placement without pins.
Within a choice a search only has to keep layers off some parts, which all of them can. The placement without pins is
searched for too: what it is proven to move at least, no pinned one undercuts.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import islice

import numpy as np

from hyperplace.errors import BalanceError, PartitionerError
from hyperplace.search.candidate import Candidate
from hyperplace.search.grains import Grains
from hyperplace.search.names import SYMMETRIC
from hyperplace.search.problem import Problem
from hyperplace.search.race import Stop
from hyperplace.values.arrays import Floats
from hyperplace.values.capacities import Capacities
from hyperplace.values.layout import Layout
from hyperplace.values.pins import Bond

FREE_SHARE = 0.3  # of the time, for the placement without pins
LEAST_SHARE = 0.3  # of what is left, for the next choice
MOST_CHOICES = 500  # that are weighed
MOST_SEARCHES = 24  # of which so many are searched

Find = Callable[[Problem, Stop], Grains]
Choice = tuple[tuple[int, ...], ...]  # the parts of every bond


def pinned(problem: Problem, stop: Stop, find: Find) -> Grains:
    """Return the best that `find` finds of every grain with the settings' pins kept; just that where there are none."""
    bonds = problem.settings.pins.bonds(problem.graph, problem.settings.k)
    if not bonds:
        return find(problem, stop)
    bonds = tuple(sorted(bonds, key=lambda bond: bond.part is None))  # what is told leaves fewer parts alike
    is_searched = problem.settings.partitioner in SYMMETRIC
    if is_searched:
        _refuse_too_heavy(problem, bonds)
    choices = list(islice(_choices(bonds, problem.capacities), MOST_CHOICES))
    free: Grains = {}
    if len(choices) > 1 or (is_searched and problem.given is None):
        free = find(problem, stop.part(FREE_SHARE, "without pins, "))
    best = _best_of(problem, stop, find, [_places(bonds, choice) for choice in _ranked(problem, bonds, choices, free)])
    return {grain: _bounded(one, free.get(grain)) for grain, one in best.items()}


def _best_of(problem: Problem, stop: Stop, find: Find, places: Sequence[dict[str, tuple[int, ...]]]) -> Grains:
    """Return the best of every grain, each choice with its share of the time."""
    best: Grains = {}
    fault: BalanceError | PartitionerError | None = None
    for number, one in enumerate(places):
        if best and stop.is_over():
            stop.leave_out("other parts for the pinned layers")
            break
        part = stop.part(max(LEAST_SHARE, 1 / (len(places) - number)) if number < len(places) - 1 else 1.0)
        try:
            best = _merged(best, find(replace(problem, places=one), part))
        except (BalanceError, PartitionerError) as refused:  # another choice may do
            fault = refused
    if not best:
        raise BalanceError(f"with the pins {problem.settings.pins}: {fault}")
    return best


def _merged(one: Grains, other: Grains) -> Grains:
    return {grain: min(one.get(grain, found), found, key=_rank) for grain, found in other.items()}


def _rank(found: Candidate | str) -> tuple[bool, bool, float]:
    return (True, True, 0.0) if isinstance(found, str) else (False, not found.is_feasible, found.cost)


def _bounded(found: Candidate | str, free: Candidate | str | None) -> Candidate | str:
    """Return what was found with the bound of all placements, pinned or not: that of one choice is not of all."""
    if isinstance(found, str):
        return found
    bound = free.layout.bound_bytes if isinstance(free, Candidate) else None
    return replace(found, layout=replace(found.layout, bound_bytes=bound))


def _refuse_too_heavy(problem: Problem, bonds: Sequence[Bond]) -> None:
    """Say where the pins alone ask more of a part than it may have."""
    weight_of = {bond: _work(problem, bond) for bond in bonds if bond.most == 1}
    for part, limit in enumerate(problem.limits.tolist()):
        pinned_work = sum(weight for bond, weight in weight_of.items() if bond.part == part)
        if pinned_work > limit * (1 + 1e-9):
            raise _too_heavy(problem, f"the layers pinned to part {part} weigh", pinned_work)
    for bond, weight in weight_of.items():
        if weight > problem.limits.max() * (1 + 1e-9):
            raise _too_heavy(problem, f"{', '.join(bond.layers)}, which are kept on one part, weigh", weight)


def _too_heavy(problem: Problem, what: str, work: float) -> BalanceError:
    times = work * problem.settings.k / problem.runs.total_work
    return BalanceError(
        f"{problem.balance} cannot be met at k={problem.settings.k}: {what} {times:.2f}x the average part; pin less, "
        f"or raise --imbalance to at least {np.ceil((times - 1) * 1000) / 1000:g}"
    )


def _work(problem: Problem, bond: Bond) -> float:
    runs, mine = problem.runs, np.isin(problem.runs.layers, bond.layers)
    return float((runs.sizes * runs.work)[mine].sum())


def _choices(bonds: Sequence[Bond], capacities: Capacities, chosen: Choice = ()) -> Iterator[Choice]:
    """Yield the parts of every bond, once where parts that are alike change places."""
    if len(chosen) == len(bonds):
        yield chosen
        return
    bond, alike = bonds[len(chosen)], dict[tuple[object, ...], list[int]]()
    for part, most in enumerate(capacities.times_average.tolist()):
        alike.setdefault((most, *(part in parts for parts in chosen)), []).append(part)
    told = [(bond.part,)] if bond.part is not None else _some_of(bond.most, list(alike.values()))
    for parts in told:
        yield from _choices(bonds, capacities, (*chosen, parts))


def _some_of(number: int, alike: Sequence[list[int]]) -> Iterator[tuple[int, ...]]:
    """Yield so many parts, of those alike always the first."""
    if not alike:
        if not number:
            yield ()
        return
    first, *rest = alike
    for count in range(min(number, len(first)), -1, -1):
        for others in _some_of(number - count, rest):
            yield (*first[:count], *others)


def _places(bonds: Sequence[Bond], choice: Choice) -> dict[str, tuple[int, ...]]:
    return {layer: parts for bond, parts in zip(bonds, choice, strict=True) for layer in bond.layers}


def _ranked(problem: Problem, bonds: Sequence[Bond], choices: list[Choice], free: Grains) -> list[Choice]:
    """Return the choices to search, those first of which the placement without pins has most already."""
    found = next((one for one in free.values() if isinstance(one, Candidate)), None)
    if found is None:
        return choices[:MOST_SEARCHES]
    on_part = np.array([_work_on_parts(problem, bond, found.layout) for bond in bonds])
    is_named = not problem.capacities.is_even  # else the parts of the free placement may change names

    def kept(choice: Choice) -> float:
        allowed = np.array([np.isin(np.arange(problem.settings.k), parts) for parts in choice])
        return _matched(on_part.T @ allowed, is_named=is_named)

    return sorted(choices, key=kept, reverse=True)[:MOST_SEARCHES]


def _work_on_parts(problem: Problem, bond: Bond, layout: Layout) -> Floats:
    """Return the work of a bond's layers on every part."""
    work = np.zeros(layout.num_parts)
    for layer in bond.layers:
        plane = layout.owners[layer]
        cells = np.outer(np.diff(plane.lines), np.diff(plane.columns)).ravel()
        mine = np.bincount(plane.parts.ravel(), cells, layout.num_parts)
        work += mine / mine.sum() * _work(problem, Bond((layer,)))
    return work


def _matched(kept: Floats, *, is_named: bool) -> float:
    """Return the sum of kept[old part, new part] over a renaming of the parts that makes it large, or over none."""
    if is_named:
        return float(np.trace(kept))
    total, left = 0.0, kept.copy()
    for _ in range(len(kept)):
        old, new = np.unravel_index(int(left.argmax()), left.shape)
        total += float(kept[old, new])
        left[old, :] = left[:, new] = -1.0
    return total
