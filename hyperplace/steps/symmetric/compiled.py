"""What both local searches are compiled from: random numbers, cooling, and lists of links."""
# ruff: noqa: NPY002 - compiled code draws from numba's own generator, which is seeded through the old names

from typing import Any, NamedTuple

import numpy as np

from hyperplace.machine_code import entry, inlined
from hyperplace.values.arrays import Floats, Ints
from hyperplace.values.runs import Links

NONE_BARRED: Ints = np.zeros((0, 0), np.int64)
ROUNDING = 1e-9  # of the most work of a part: what sums of floats may be off


class Schedule(NamedTuple):
    """Temperature (bytes) and price of overload (bytes per work), at the start and at the end."""

    hot: float
    cold: float
    cheap: float
    dear: float

    def scaled(self, unit: float, limits: Floats) -> "Schedule":
        """Return a schedule given in units of what a part receives, in bytes; `limits` are the most work of parts."""
        limit = float(limits.max())
        price = unit / limit if limit > 0 else unit  # without work there is no overload to price
        return Schedule(self.hot * unit, self.cold * unit, self.cheap * price, self.dear * price)


@inlined()
def cooled(schedule: Schedule, done: float) -> tuple[float, float]:
    """Return temperature and price of overload when so much of all moves is done."""
    heat = schedule.hot * (schedule.cold / schedule.hot) ** done
    return heat, schedule.cheap * (schedule.dear / schedule.cheap) ** done


@entry()
def seed_moves(seed: int) -> None:
    """Seed the compiled code's own random numbers, which numpy outside cannot reach."""
    np.random.seed(seed)


@inlined()
def below(count: int) -> int:
    return int(np.random.random() * count)


def packed(links: Links) -> Ints:
    """Return links as one array whose first items are offsets into itself."""
    return np.concatenate([links.offsets + len(links.offsets), links.targets])


@inlined()
def draw_near(problem: Any, run: int) -> int:
    """Draw a run that reads this one or is read by it; itself where there is none."""
    first, last = problem.near[run], problem.near[run + 1]
    near: int = problem.near[first + below(last - first)] if first < last else run
    return near


# Who is where, kept as lists beside the matrix of counts: parts_of [run] is how many parts have some of it, then which,
# in no order; runs_on [part] likewise; places [run, part] is where the part stands in parts_of, and the run in runs_on,
# and then whether the part may have none of the run: here, since an array of its own costs time with every move.


def listed(counts: Ints, barred: Ints) -> tuple[Ints, Ints, Ints]:
    """Return parts_of, runs_on and places."""
    is_open = (counts > 0).astype(np.int64)
    closed = barred if barred.size else np.zeros_like(counts)
    places = np.stack([np.cumsum(is_open, axis=1), np.cumsum(is_open, axis=0), closed], axis=2)
    return _open_columns(is_open), _open_columns(is_open.T), places


def _open_columns(is_open: Ints) -> Ints:
    """Return for every line how many columns are open, then which."""
    order = np.argsort(-is_open, axis=1, kind="stable")
    return np.concatenate([is_open.sum(axis=1, keepdims=True), order], axis=1)


@inlined()
def enlist(state: Any, run: int, part: int) -> None:
    """Note that the part now has some of the run."""
    last_part, last_run = state.parts_of[run, 0] + 1, state.runs_on[part, 0] + 1
    state.parts_of[run, 0], state.runs_on[part, 0] = last_part, last_run
    state.parts_of[run, last_part], state.runs_on[part, last_run] = part, run
    state.places[run, part, 0], state.places[run, part, 1] = last_part, last_run


@inlined()
def delist(state: Any, run: int, part: int) -> None:
    """Note that the part has no more of the run: the last of each list takes its place."""
    hole_in_parts, hole_in_runs = state.places[run, part, 0], state.places[run, part, 1]
    last_part, last_run = state.parts_of[run, state.parts_of[run, 0]], state.runs_on[part, state.runs_on[part, 0]]
    state.parts_of[run, hole_in_parts], state.runs_on[part, hole_in_runs] = last_part, last_run
    state.places[run, last_part, 0], state.places[last_run, part, 1] = hole_in_parts, hole_in_runs
    state.parts_of[run, 0] -= 1
    state.runs_on[part, 0] -= 1


@inlined()
def is_barred(state: Any, run: int, part: int) -> bool:
    """Say whether the part may have none of the run."""
    return bool(state.places[run, part, 2])


@inlined()
def open_part(state: Any, run: int) -> int:
    """Draw one of the parts that have some of the run."""
    part: int = state.parts_of[run, 1 + below(state.parts_of[run, 0])]
    return part


@inlined()
def draw_run(state: Any, part: int) -> int:
    """Draw one of the runs that the part has some of."""
    run: int = state.runs_on[part, 1 + below(state.runs_on[part, 0])]
    return run
