"""Local search on the matrix of shares: simulated annealing with many restarts, seeded and repeatable.

Fast at any k, because a move touches two parts and a handful of runs. It proves nothing: see exact.py and bound.py.
"""

from collections.abc import Callable, Iterator

import numpy as np

from hyperplace.steps.symmetric.annealing import Problem, State, anneal, begin
from hyperplace.steps.symmetric.compiled import NONE_BARRED, ROUNDING, Schedule, listed, packed, seed_moves
from hyperplace.values.arrays import Floats, Ints
from hyperplace.values.runs import Links, Runs, Shares, kept_off, shares_volume, shares_work

MOST_SHIFTS = 64  # of one move
CHUNK = 200_000  # moves between two looks at `stop`

# Temperatures in units of what a part receives at the start; prices in the same per part of overload. Overload must be
# cheap at first, so that work can pass through full parts, and dear enough in the end that not one filter is too many.
# No one schedule is best for all networks.
EXPLORE = (
    Schedule(0.1, 0.001, 1, 3000),
    Schedule(0.05, 0.001, 1, 3000),
    Schedule(0.2, 0.001, 1, 1000),
    Schedule(0.2, 0.003, 1, 3000),
)
POLISH = Schedule(0.02, 0.0005, 4, 3000)  # for the best so far

# Restarts and the moves of each, the same number of moves in every round. Slow cooling finds more in a large graph, but
# always ends in the same valley, which need not be the deepest (ResNet-34 at k=7: 99 MiB, where a quick restart in
# thirty finds 86): short restarts try many valleys first, and the longer ones polish the best of theirs too.
ROUNDS = ((192, 50_000), (48, 200_000), (12, 800_000), (6, 1_600_000))
MOVES_PER_SHARE = 2000  # the most of one restart, for every run and part: a small graph is soon exhausted

Stop = Callable[[], bool]


def search(
    runs: Runs,
    limits: Floats,
    *,
    seed: int = 0,
    start: Shares | None = None,
    num_moves: int | None = None,
    num_restarts: int | None = None,
    stop: Stop = lambda: False,
) -> Shares | None:
    """Return the best balanced shares found, or None; `limits` are the most work of every part.

    `num_moves` is the most of one restart; by default as many as a graph of this size needs. Every third restart
    polishes the best so far, the others begin at `start`.
    """
    num_parts = len(limits)
    most_moves = num_moves or MOVES_PER_SHARE * len(runs.layers) * num_parts
    problem = problem_of(runs, limits)
    first = Shares(start.filters if start else kept_off(runs, fill(runs, limits), runs.work, limits))
    best, best_bytes = np.array(first.filters), _bytes_if_balanced(runs, first, limits)
    for restart, length in enumerate(lengths(most_moves)[:num_restarts]):
        if stop():
            break
        seed_moves(seed * 1000 + restart)
        polishes = restart % 3 == 2 and best_bytes < np.inf
        begin = np.array(best if polishes else first.filters)
        # A start may move nothing and be too heavy: then its bytes say nothing about those of a balanced one.
        unit = max(1.0, (shares_volume(runs, Shares(begin)) or float(runs.sizes @ runs.map_bytes)) / num_parts)
        schedule = (POLISH if polishes else EXPLORE[restart % len(EXPLORE)]).scaled(unit, limits)
        best_bytes = _anneal(
            problem, state_of(problem, limits, begin, runs.barred), (best, best_bytes), schedule, length, stop
        )
    return Shares(best, "local") if best_bytes < np.inf else None


def warm_up() -> None:
    """Search a graph of two runs, so that all that is compiled has been."""
    one, none = np.array([1.0, 1.0]), Links.of([set(), set()])
    sizes, map_bytes, solid = np.array([2, 2]), np.array([4, 4]), np.array([0, 0])
    runs = Runs(("a", "b"), np.array([0, 0]), sizes, one, map_bytes, solid, Links.of([{1}, set()]), none)
    search(runs, np.array([3.0, 3.0]), num_moves=100, num_restarts=1)


def lengths(most_moves: int) -> list[int]:
    """Return the number of moves of every restart, none more than the most."""
    return [min(most_moves, moves) for count, moves in ROUNDS for _ in range(count)]


def _bytes_if_balanced(runs: Runs, shares: Shares, limits: Floats) -> float:
    is_balanced = np.all(shares_work(runs, shares) <= limits * (1 + ROUNDING))
    return shares_volume(runs, shares) if is_balanced else np.inf


def _anneal(
    problem: Problem, state: State, found: tuple[Ints, float], schedule: Schedule, num_moves: int, stop: Stop
) -> float:
    best, best_bytes = found
    for first, last in _chunks(num_moves):
        if stop():
            break
        best_bytes = anneal(problem, state, best, best_bytes, schedule, (first, last, num_moves))
    return best_bytes


def _chunks(num_moves: int) -> Iterator[tuple[int, int]]:
    for first in range(0, num_moves, CHUNK):
        yield first, min(first + CHUNK, num_moves)


def fill(runs: Runs, limits: Floats) -> Ints:
    """Return the incremental shares: fill a part up to its fair share, then go on to the next."""
    num_parts, done = len(limits), 0.0
    filters = np.zeros((len(runs.layers), num_parts), np.int64)
    ends = np.cumsum(limits)[:-1] * (runs.total_work / limits.sum() if limits.sum() else 0.0)
    for run, (size, work) in enumerate(zip(runs.sizes.tolist(), runs.work.tolist(), strict=True)):
        middles = done + work * (np.arange(size) + 0.5)
        parts = np.searchsorted(ends, middles, "right") if runs.total_work else np.zeros(size, np.int64)
        if runs.is_solid[run]:
            parts[:] = parts[size // 2]
        filters[run] = np.bincount(parts, minlength=num_parts)
        done += work * size
    return filters


def problem_of(runs: Runs, limits: Floats) -> Problem:
    """Return the runs as the compiled code wants them."""
    feeds, mates = runs.readers.reversed(), runs.tied.reversed()
    near = Links.of([{*runs.readers[r], *runs.tied[r], *feeds[r], *mates[r]} - {r} for r in range(len(runs.layers))])
    sees = Links.of([lists for r in range(len(runs.layers)) for lists in ({r, *mates[r]}, {*feeds[r]})])
    return Problem(
        runs.sizes,
        np.asarray(runs.work, np.float64),
        runs.map_bytes.astype(np.float64),
        runs.is_solid,
        packed(runs.tied),
        packed(sees),
        packed(near),
        ROUNDING * float(limits.max()),
    )


def state_of(problem: Problem, limits: Floats, filters: Ints, barred: Ints = NONE_BARRED) -> State:
    """Return the shares with what is kept beside them."""
    open_readers = np.zeros_like(filters)
    for run in range(len(filters)):
        for feed in problem.sees[problem.sees[2 * run + 1] : problem.sees[2 * run + 2]]:
            open_readers[feed] += filters[run] > 0
    shifts = np.zeros((MOST_SHIFTS + 1, 4), np.int64)
    received, load = np.zeros(filters.shape), np.stack([problem.work @ filters, limits], axis=1)
    state = State(filters, open_readers, received, load, np.zeros(2), *listed(filters, barred), shifts)
    begin(problem, state)
    return state
