"""Local search on the matrix of shares: simulated annealing with restarts, seeded and repeatable.

Fast at any k, because a move touches two parts and a handful of runs. It proves nothing: see exact.py and bound.py.
"""

from collections.abc import Callable, Iterator

import numpy as np

from hyperplace.steps.share.annealing import Problem, Schedule, State, anneal, begin, seed_moves
from hyperplace.values.arrays import Ints
from hyperplace.values.runs import Links, Runs, Shares

MOST_SHIFTS = 64  # of one move
CHUNK = 200_000  # moves between two looks at `stop`

Stop = Callable[[], bool]


def search(
    runs: Runs,
    num_parts: int,
    limit: float,
    *,
    seed: int = 0,
    start: Shares | None = None,
    num_moves: int = 1_000_000,
    num_restarts: int = 8,
    stop: Stop = lambda: False,
) -> Shares | None:
    """Return the best balanced shares found, or None; `limit` is the most work of a part."""
    problem = problem_of(runs, limit)
    first = start.filters if start else fill(runs, num_parts)
    best, best_bytes = np.array(first), np.inf
    for restart in range(num_restarts):
        seed_moves(seed * 1000 + restart)
        begin = np.array(best if best_bytes < np.inf and restart % 2 else first)
        scale = float(runs.map_bytes @ runs.sizes) * _HEATS[restart % len(_HEATS)]
        best_bytes = _anneal(problem, begin, best, best_bytes, scale, num_moves, stop)
    return Shares(best, "local") if best_bytes < np.inf else None


_HEATS = (0.005, 0.001)  # of all bytes: hot enough to move whole layers, then only to polish the best


def _anneal(
    problem: Problem, begin: Ints, best: Ints, best_bytes: float, scale: float, num_moves: int, stop: Stop
) -> float:
    schedule = Schedule(scale, scale / 1000, scale * 50 / problem.limit, scale * 5000 / problem.limit)
    state = state_of(problem, begin)
    for first, last in _chunks(num_moves):
        if stop():
            break
        best_bytes = anneal(problem, state, best, best_bytes, schedule, (first, last, num_moves))
    return best_bytes


def _chunks(num_moves: int) -> Iterator[tuple[int, int]]:
    for first in range(0, num_moves, CHUNK):
        yield first, min(first + CHUNK, num_moves)


def fill(runs: Runs, num_parts: int) -> Ints:
    """Return the incremental shares: fill a part up to the average, then go on to the next."""
    filters = np.zeros((len(runs.layers), num_parts), np.int64)
    average, done = runs.total_work / num_parts, 0.0
    for run, (size, work) in enumerate(zip(runs.sizes.tolist(), runs.work.tolist(), strict=True)):
        middles = done + work * (np.arange(size) + 0.5)
        parts = np.minimum(middles / average if average else np.zeros(size), num_parts - 1).astype(np.int64)
        if runs.is_solid[run]:
            parts[:] = parts[size // 2]
        filters[run] = np.bincount(parts, minlength=num_parts)
        done += work * size
    return filters


def problem_of(runs: Runs, limit: float) -> Problem:
    """Return the runs as the compiled code wants them."""
    feeds, mates = runs.readers.reversed(), runs.tied.reversed()
    near = Links.of([{*runs.readers[r], *runs.tied[r], *feeds[r], *mates[r]} - {r} for r in range(len(runs.layers))])
    sees = Links.of([lists for r in range(len(runs.layers)) for lists in ({r, *mates[r]}, {*feeds[r]})])
    return Problem(
        runs.sizes,
        np.asarray(runs.work, np.float64),
        runs.map_bytes.astype(np.float64),
        runs.is_solid,
        _packed(runs.tied),
        _packed(sees),
        _packed(near),
        float(limit),
    )


def _packed(links: Links) -> Ints:
    return np.concatenate([links.offsets + len(links.offsets), links.targets])


def state_of(problem: Problem, filters: Ints) -> State:
    """Return the shares with what is kept beside them."""
    is_open = (filters > 0).astype(np.int64)
    open_readers = np.zeros_like(filters)
    for run in range(len(filters)):
        for feed in problem.sees[problem.sees[2 * run + 1] : problem.sees[2 * run + 2]]:
            open_readers[feed] += is_open[run]
    places = np.stack([np.cumsum(is_open, axis=1), np.cumsum(is_open, axis=0)], axis=2)
    lists = _listed(is_open), _listed(is_open.T)
    shifts = np.zeros((MOST_SHIFTS + 1, 4), np.int64)
    received = np.zeros(filters.shape)
    state = State(filters, open_readers, received, problem.work @ filters, np.zeros(2), *lists, places, shifts)
    begin(problem, state)
    return state


def _listed(is_open: Ints) -> Ints:
    """Return for every row how many columns are open, then which."""
    order = np.argsort(-is_open, axis=1, kind="stable")
    return np.concatenate([is_open.sum(axis=1, keepdims=True), order], axis=1)
