"""The inner loop of the local search, compiled by numba: a few million moves a second.

The state is the matrix of shares and what can be updated beside it: how many readers of each run are open on each
part, and the load of each part. A move takes filters of one run from a part to another, and sometimes pays with filters
of another run in return; it changes a handful of cells, so its cost is known at once. Overload is allowed at a price
that rises as the temperature falls. numba, because the loop is scalar and branchy: numpy has nothing to vectorise, and
a C extension would need a compiler on the user's machine.
"""
# ruff: noqa: NPY002 - compiled code draws from numba's own generator, which is seeded through the old names

from typing import NamedTuple

import numba
import numpy as np

from hyperplace.values.arrays import Floats, Ints


class Problem(NamedTuple):
    """The runs as plain arrays; `x_of` / `x` pairs are offsets and targets."""

    sizes: Ints
    work: Floats
    map_bytes: Floats
    is_solid: Ints
    tied_of: Ints  # the runs that read a run channel by channel
    tied: Ints
    feeds_of: Ints  # the runs of which a run reads everything
    feeds: Ints
    mates_of: Ints  # the runs that a run reads channel by channel
    mates: Ints
    near_of: Ints  # all of these
    near: Ints
    limit: float


class State(NamedTuple):
    """Filters of every run on every part; open readers of every run on every part; load of every part."""

    filters: Ints
    open_readers: Ints
    load: Floats


class Schedule(NamedTuple):
    """Temperature (bytes) and price of overload (bytes per work), at the start and at the end."""

    hot: float
    cold: float
    cheap: float
    dear: float


@numba.njit(cache=True)
def received(problem: Problem, state: State, run: int, part: int) -> float:
    """Return the bytes of a run that a part must receive."""
    needed = 0.0
    if state.open_readers[run, part] > 0:
        needed = float(problem.sizes[run])
    else:
        for i in range(problem.tied_of[run], problem.tied_of[run + 1]):
            reader = problem.tied[i]
            share = state.filters[reader, part] * (problem.sizes[run] / problem.sizes[reader])
            needed = max(needed, share)
    return problem.map_bytes[run] * max(0.0, needed - state.filters[run, part])


@numba.njit(cache=True)
def around(problem: Problem, state: State, run: int, part: int) -> float:
    """Return the bytes of all that depends on how many filters of the run the part has."""
    total = received(problem, state, run, part)
    for i in range(problem.feeds_of[run], problem.feeds_of[run + 1]):
        total += received(problem, state, problem.feeds[i], part)
    for i in range(problem.mates_of[run], problem.mates_of[run + 1]):
        total += received(problem, state, problem.mates[i], part)
    return total


@numba.njit(cache=True)
def put(problem: Problem, state: State, run: int, part: int, count: int) -> float:
    """Set the number of filters of a run on a part, and return by how many bytes the volume grows."""
    before = around(problem, state, run, part)
    old = state.filters[run, part]
    state.filters[run, part] = count
    state.load[part] += (count - old) * problem.work[run]
    if (old > 0) != (count > 0):
        step = 1 if count > 0 else -1
        for i in range(problem.feeds_of[run], problem.feeds_of[run + 1]):
            state.open_readers[problem.feeds[i], part] += step
    return around(problem, state, run, part) - before


@numba.njit(cache=True)
def total_volume(problem: Problem, state: State) -> float:
    volume = 0.0
    for run in range(state.filters.shape[0]):
        for part in range(state.filters.shape[1]):
            volume += received(problem, state, run, part)
    return volume


@numba.njit(cache=True)
def overload(problem: Problem, state: State, part: int) -> float:
    return max(0.0, state.load[part] - problem.limit)


@numba.njit(cache=True)
def total_overload(problem: Problem, state: State) -> float:
    total = 0.0
    for part in range(len(state.load)):
        total += overload(problem, state, part)
    return total


@numba.njit(cache=True)
def open_part(state: State, run: int, but: int) -> int:
    """Draw one of the parts that have filters of the run, other than `but`; -1 where there is none."""
    seen, chosen = 0, -1
    for part in range(state.filters.shape[1]):
        if part != but and state.filters[run, part] > 0:
            seen += 1
            if np.random.randint(seen) == 0:
                chosen = part
    return chosen


@numba.njit(cache=True)
def draw_near(problem: Problem, run: int) -> int:
    """Draw a run that reads this one or is read by it; itself where there is none."""
    first, last = problem.near_of[run], problem.near_of[run + 1]
    return problem.near[np.random.randint(first, last)] if first < last else run


@numba.njit(cache=True)
def draw_target(problem: Problem, state: State, run: int, source: int) -> int:
    """Draw the part to move to: mostly one where a neighbour already is."""
    if np.random.random() < 0.75:
        return open_part(state, draw_near(problem, run), source)
    part = np.random.randint(len(state.load))
    return part if part != source else -1


@numba.njit(cache=True)
def draw_amount(problem: Problem, state: State, run: int, source: int, target: int) -> int:
    """Draw how many filters to move: all, as many as fit, as many as are too many, as a neighbour has, or some."""
    present, amount, dice = state.filters[run, source], state.filters[run, source], np.random.random()
    if problem.is_solid[run]:
        return present
    if problem.work[run] > 0:
        if dice < 0.25:
            amount = int((problem.limit - state.load[target]) / problem.work[run])
        elif dice < 0.45:
            amount = int(np.ceil((state.load[source] - problem.limit) / problem.work[run]))
        elif dice < 0.65:
            amount = np.random.randint(1, present + 1) if dice < 0.55 else 1
    elif dice < 0.5:
        near = draw_near(problem, run)
        share = state.filters[near, target] * (problem.sizes[run] / problem.sizes[near])
        amount = int(share) - state.filters[run, target]
    return max(0, min(amount, present))


@numba.njit(cache=True)
def draw_payment(problem: Problem, state: State, run: int, target: int, work: float) -> tuple[int, int]:
    """Draw filters of another run on the target, worth about the work, to send back."""
    for _ in range(5):
        other = np.random.randint(len(problem.sizes))
        present = state.filters[other, target]
        if other != run and present > 0:
            if problem.is_solid[other] or problem.work[other] <= 0 or np.random.random() < 0.4:
                return other, present
            return other, min(present, int(work / problem.work[other] + np.random.random()))
    return 0, 0


@numba.njit(cache=True, nogil=True)
def anneal(
    problem: Problem, state: State, best: Ints, best_bytes: float, schedule: Schedule, span: tuple[int, int, int]
) -> float:
    """Make moves span[0]..span[1] of span[2]; keep the best balanced shares in `best` and return their bytes."""
    num_runs = len(problem.sizes)
    volume, excess = total_volume(problem, state), total_overload(problem, state)
    for step in range(span[0], span[1]):
        progress = step / span[2]
        heat = schedule.hot * (schedule.cold / schedule.hot) ** progress
        price = schedule.cheap * (schedule.dear / schedule.cheap) ** progress
        run = np.random.randint(num_runs)
        source = open_part(state, run, -1)
        target = draw_target(problem, state, run, source)
        amount = draw_amount(problem, state, run, source, target) if target >= 0 else 0
        if amount == 0:
            continue
        other, paid = 0, 0
        before = overload(problem, state, source) + overload(problem, state, target)
        growth = put(problem, state, run, source, state.filters[run, source] - amount)
        growth += put(problem, state, run, target, state.filters[run, target] + amount)
        if np.random.random() < 0.35:
            other, paid = draw_payment(problem, state, run, target, amount * problem.work[run])
            growth += put(problem, state, other, target, state.filters[other, target] - paid)
            growth += put(problem, state, other, source, state.filters[other, source] + paid)
        more = overload(problem, state, source) + overload(problem, state, target) - before
        worse = growth + price * more
        if worse <= 0 or np.random.random() < np.exp(-worse / heat):
            volume, excess = volume + growth, excess + more
            better = volume < best_bytes - 0.5 and excess <= 1e-9 * problem.limit
            if better and total_overload(problem, state) <= 1e-9 * problem.limit:
                best_bytes, best[:] = volume, state.filters
        else:
            put(problem, state, other, source, state.filters[other, source] - paid)
            put(problem, state, other, target, state.filters[other, target] + paid)
            put(problem, state, run, target, state.filters[run, target] - amount)
            put(problem, state, run, source, state.filters[run, source] + amount)
    return best_bytes


@numba.njit(cache=True)
def seed_moves(seed: int) -> None:
    """Seed the compiled code's own random numbers, which numpy outside cannot reach."""
    np.random.seed(seed)
