"""Local search on the shares of runs that may be split by filters or by rows: annealing with restarts, seeded.

Like local.py, of which it is the hybrid twin, it proves nothing.
"""

from collections.abc import Callable, Sequence

import numpy as np

from hyperplace.steps.symmetric.compiled import NONE_BARRED, ROUNDING, Schedule, listed, packed, seed_moves
from hyperplace.steps.symmetric.hybrid_annealing import Problem, State, begin
from hyperplace.steps.symmetric.hybrid_moves import anneal
from hyperplace.values.arrays import Floats, Ints
from hyperplace.values.modes import HybridRuns, ModeShares, modes_volume, modes_work
from hyperplace.values.runs import Links, Runs

CHUNK = 100_000  # moves between two looks at `stop`
JOURNAL = 8192  # lines of one move at most

# In units of what a part receives at the start, as in local.py.
EXPLORE = (
    Schedule(0.1, 0.001, 1, 3000),
    Schedule(0.3, 0.002, 1, 3000),
    Schedule(0.03, 0.0005, 2, 3000),
)
POLISH = Schedule(0.02, 0.0003, 4, 3000)  # for the best so far

MOVES_PER_SHARE = 3000  # moves of one restart, for every run and part
MOST_MOVES = 400_000
ALL_MOVES = 3_200_000  # of all restarts together, about

Stop = Callable[[], bool]


def search_modes(
    hybrid: HybridRuns,
    limits: Floats,
    starts: Sequence[ModeShares],
    *,
    seed: int = 0,
    num_moves: int | None = None,
    num_restarts: int | None = None,
    stop: Stop = lambda: False,
    on_best: Callable[[float], None] = lambda num_bytes: None,
) -> ModeShares | None:
    """Return the best balanced shares found, or None; `limits` are the most work of every part.

    Every other restart polishes the best so far; of the others every other begins at the best start, the rest at all
    starts in turn. Moves and restarts are as many as a graph of this size needs.
    """
    num_parts = len(limits)
    num_moves = num_moves or min(MOST_MOVES, MOVES_PER_SHARE * len(hybrid.copy_bytes) * num_parts)
    num_restarts = num_restarts or max(8, min(24, ALL_MOVES // num_moves))
    problem = problem_of(hybrid, limits)
    first = min(starts, key=lambda shares: _bytes_if_balanced(hybrid, shares, limits))
    best, best_bytes = (np.array(first.counts), np.array(first.by_rows)), _bytes_if_balanced(hybrid, first, limits)
    for restart in range(num_restarts):
        if stop():
            break
        seed_moves(seed * 1000 + restart)
        polishes = restart % 2 == 1 and best_bytes < np.inf
        number = restart // 2
        chosen = first if number % 2 == 0 else starts[number // 2 % len(starts)]
        begins = ModeShares(*best) if polishes else chosen
        # A start may move nothing and be too heavy: then its bytes say nothing about those of a balanced one.
        volume = modes_volume(hybrid, begins) or float(hybrid.whole_bytes.sum())
        unit = max(1.0, min(volume, best_bytes) / num_parts)
        schedule = (POLISH if polishes else EXPLORE[number % len(EXPLORE)]).scaled(unit, limits)
        state = state_of(problem, limits, np.array(begins.counts), np.array(begins.by_rows), hybrid.runs.barred)
        for done in range(0, num_moves, CHUNK):
            if stop():
                break
            span = (done, min(done + CHUNK, num_moves), num_moves)
            best_bytes = anneal(problem, state, best, best_bytes, schedule, span)
        on_best(best_bytes)
    return ModeShares(*best, "local") if best_bytes < np.inf else None


def warm_up() -> None:
    """Search a graph of two runs, so that all that is compiled has been."""
    sizes, solid, none = np.array([2, 2]), np.array([0, 0]), Links.of([set(), set()])
    runs = Runs(("a", "b"), solid, sizes, np.ones(2), sizes, solid, Links.of([{1}, set()]), none)
    start = ModeShares(np.array([[1, 1], [1, 1]]), np.array([0, 1]))
    hybrid, limits = HybridRuns(runs, 2, sizes, np.array([1, 1])), np.array([3.0, 3.0])
    search_modes(hybrid, limits, [start], num_moves=100, num_restarts=1)


def _bytes_if_balanced(hybrid: HybridRuns, shares: ModeShares, limits: Floats) -> float:
    is_balanced = np.all(modes_work(hybrid, shares) <= limits * (1 + ROUNDING))
    return modes_volume(hybrid, shares) if is_balanced else np.inf


def problem_of(hybrid: HybridRuns, limits: Floats) -> Problem:
    """Return the runs as the compiled code wants them."""
    runs, numbers = hybrid.runs, range(len(hybrid.copy_bytes))
    feeds, mates = runs.readers.reversed(), runs.tied.reversed()
    near = Links.of([{*runs.readers[r], *runs.tied[r], *feeds[r], *mates[r]} - {r} for r in numbers])
    circle_of, members = _circles(runs)
    return Problem(
        np.array(runs.sizes),
        hybrid.batch,
        hybrid.work.astype(np.float64),
        hybrid.whole_bytes.astype(np.float64),
        hybrid.copy_bytes.astype(np.float64),
        np.array(runs.is_solid),
        np.array(hybrid.splits_rows),
        packed(runs.readers),
        packed(runs.tied),
        packed(_feeds(feeds, mates, len(numbers))),
        packed(near),
        circle_of,
        packed(members.reversed(len(numbers))),
        packed(members),
        ROUNDING * float(limits.max()),
    )


def _feeds(feeds: Links, mates: Links, num_runs: int) -> Links:
    """Return what every run reads, in order; those it reads channel by channel as -1 - run."""
    lists = [sorted({*feeds[r], *mates[r]}) for r in range(num_runs)]
    tied = [set(mates[r]) for r in range(num_runs)]
    targets = [-1 - feed if feed in tied[r] else feed for r, reads in enumerate(lists) for feed in reads]
    return Links(np.cumsum([0, *map(len, lists)]), np.array(targets, np.int64))


def _circles(runs: Runs) -> tuple[Ints, Links]:
    """Return the circle of those that read all of each run, and the runs of every circle."""
    numbers: dict[frozenset[int], int] = {}
    circle_of = [numbers.setdefault(frozenset(runs.readers[r]), len(numbers)) for r in range(len(runs.layers))]
    return np.array(circle_of, np.int64), Links.of([set(readers) for readers in numbers])


def state_of(problem: Problem, limits: Floats, counts: Ints, by_rows: Ints, barred: Ints = NONE_BARRED) -> State:
    """Return the shares with what is kept beside them."""
    work = (problem.work / np.where(by_rows, problem.batch, problem.sizes)) @ counts
    load = np.stack([work, limits], axis=1)
    journal, noted_in = np.zeros((JOURNAL, 3), np.int64), np.zeros(len(counts), np.int64)
    num_circles = int(problem.circle_of.max()) + 1
    wanted, is_changed = np.zeros((num_circles, counts.shape[1])), np.zeros(num_circles, np.int64)
    wants = (np.zeros(counts.shape), wanted, is_changed)
    state = State(counts, by_rows, *wants, load, np.zeros(2), *listed(counts, barred), journal, noted_in)
    begin(problem, state)
    return state
