"""The inner loop of the local search, compiled by numba: a few million moves a second.

The state is the matrix of shares and what can be updated beside it: which parts are open for a run (hold filters of
it), how many readers of each run are open on each part, the load of each part, volume and overload. A move is a few
shifts of filters from part to part, written down so that it can be taken back. Overload is allowed at a price that
rises as the temperature falls. numba, because the loop is scalar and branchy: numpy has nothing to vectorise, and a C
extension would need a compiler on the user's machine.

Coarse is hybrid without rows, and hybrid_annealing.py given no rows to split finds the same bytes; but it makes a
seventh of the moves in the same time (vgg16, k = 4: 0.52 against 3.46 million a second), as what a part receives is no
longer one comparison. So there are two kernels, with the same lists, schedules and limits around them (compiled.py).
"""
# ruff: noqa: NPY002 - compiled code draws from numba's own generator, which is seeded through the old names

from typing import NamedTuple

import numpy as np

from hyperplace.machine_code import entry, inlined
from hyperplace.steps.symmetric.compiled import (
    Schedule,
    below,
    cooled,
    delist,
    draw_near,
    draw_run,
    enlist,
    is_barred,
    open_part,
)
from hyperplace.values.arrays import Floats, Ints

CLOSE, EXCHANGE, ALONG = 0.1, 0.02, 0.2  # chances of the kinds of moves; the others shift a single run
CHAIN = 0.3  # chance that a shift is followed by another one


class Problem(NamedTuple):
    """The runs as plain arrays; of links the first items are offsets into the same array."""

    sizes: Ints
    work: Floats
    map_bytes: Floats
    is_solid: Ints
    tied: Ints  # the runs that read a run channel by channel
    sees: Ints  # two lists of a run: itself and the runs it reads channel by channel; the runs it reads all of
    near: Ints  # the runs that read a run or are read by it
    slack: float  # of work, which rounding may add


class State(NamedTuple):
    """What the moves change."""

    filters: Ints  # [run, part]
    open_readers: Ints  # [run, part]
    received: Floats  # [run, part]: the bytes of the run that the part must receive
    load: Floats  # [part, 0]: its work; [part, 1]: the most it may have, here and not in an array that costs a fifth
    totals: Floats  # volume, overload
    parts_of: Ints  # these three as in compiled.py
    runs_on: Ints
    places: Ints
    shifts: Ints  # of the present move: how many, then run, source, target, amount of each


@inlined()
def receive(problem: Problem, state: State, run: int, part: int) -> None:
    """Count again the bytes of a run that a part must receive."""
    needed = 0.0
    if state.open_readers[run, part] > 0:
        needed = float(problem.sizes[run])
    else:
        for i in range(problem.tied[run], problem.tied[run + 1]):
            reader = problem.tied[i]
            share = state.filters[reader, part] * (problem.sizes[run] / problem.sizes[reader])
            needed = max(needed, share)
    total = problem.map_bytes[run] * max(0.0, needed - state.filters[run, part])
    state.totals[0] += total - state.received[run, part]
    state.received[run, part] = total


@inlined()
def put(problem: Problem, state: State, run: int, part: int, count: int) -> None:
    """Set the number of filters of a run on a part, and all that depends on it."""
    more = count - state.filters[run, part]
    step = int(count > 0) - int(state.filters[run, part] > 0)
    excess = max(0.0, state.load[part, 0] - state.load[part, 1])
    state.filters[run, part] = count
    state.load[part, 0] += more * problem.work[run]
    state.totals[1] += max(0.0, state.load[part, 0] - state.load[part, 1]) - excess
    first, middle, last = problem.sees[2 * run], problem.sees[2 * run + 1], problem.sees[2 * run + 2]
    for i in range(first, last if step else middle):
        if i >= middle:
            state.open_readers[problem.sees[i], part] += step
        receive(problem, state, problem.sees[i], part)
    if step > 0:
        enlist(state, run, part)
    elif step < 0:
        delist(state, run, part)


@inlined()
def shift(problem: Problem, state: State, run: int, source: int, target: int, amount: int) -> None:
    """Take filters of a run from a part to another that may have them, and note it; less than 0 go back."""
    i = state.shifts[0, 0] + 1
    if amount == 0 or source == target or i == len(state.shifts):
        return
    if is_barred(state, run, target if amount > 0 else source):
        return
    for side in range(2):
        part, more = (source, -amount) if side == 0 else (target, amount)
        put(problem, state, run, part, state.filters[run, part] + more)
    state.shifts[i, 0], state.shifts[i, 1], state.shifts[i, 2], state.shifts[i, 3] = run, source, target, amount
    state.shifts[0, 0] = i


@inlined()
def take_back(problem: Problem, state: State) -> None:
    """Undo the shifts of the present move."""
    for i in range(state.shifts[0, 0], 0, -1):
        state.shifts[0, 0] = i - 1  # shift() notes itself in the row it undoes
        shift(problem, state, state.shifts[i, 0], state.shifts[i, 2], state.shifts[i, 1], state.shifts[i, 3])
    state.shifts[0, 0] = 0


@inlined()
def settle(problem: Problem, state: State) -> None:
    """Add up volume and overload afresh, so that rounding does not pile up."""
    state.totals[:] = 0.0
    for part in range(len(state.load)):
        for run in range(len(problem.sizes)):
            state.totals[0] += state.received[run, part]
        state.totals[1] += max(0.0, state.load[part, 0] - state.load[part, 1])


@inlined()
def draw_target(problem: Problem, state: State, run: int) -> int:
    """Draw the part to move to: mostly one where the run or a neighbour already is."""
    dice = np.random.random()
    if dice < 0.6:
        return open_part(state, draw_near(problem, run))
    if dice < 0.85:
        return open_part(state, run)
    return below(len(state.load))


@inlined()
def draw_amount(problem: Problem, state: State, run: int, source: int, target: int) -> int:
    """Draw how many filters to move: all, as many as fit, as many as are too many, as a neighbour has, or some."""
    present, dice = state.filters[run, source], np.random.random()
    amount = present
    if problem.is_solid[run]:
        return present
    if problem.work[run] > 0:
        if dice < 0.25:
            amount = int((state.load[target, 1] - state.load[target, 0]) / problem.work[run])
        elif dice < 0.45:
            amount = int(np.ceil((state.load[source, 0] - state.load[source, 1]) / problem.work[run]))
        elif dice < 0.65:
            amount = 1 + below(present) if dice < 0.55 else 1
    elif dice < 0.5:
        near = draw_near(problem, run)
        share = state.filters[near, target] * (problem.sizes[run] / problem.sizes[near])
        amount = int(share) - state.filters[run, target]
    return max(0, min(amount, present))


@inlined()
def shift_near(problem: Problem, state: State, chance: float) -> None:
    """Let the neighbours of what was shifted come along in proportion, each with a chance, and their neighbours."""
    i = 1
    while i <= state.shifts[0, 0]:
        run, source, target, amount = state.shifts[i, 0], state.shifts[i, 1], state.shifts[i, 2], state.shifts[i, 3]
        i += 1
        for j in range(problem.near[run], problem.near[run + 1]):
            near = problem.near[j]
            if np.random.random() < chance and not is_shifted(state, near):
                share = amount * (problem.sizes[near] / problem.sizes[run])
                present = state.filters[near, source]
                wanted = present if problem.is_solid[near] else min(present, int(share + 0.5))
                shift(problem, state, near, source, target, wanted)


@inlined()
def is_shifted(state: State, run: int) -> bool:
    found = False
    for i in range(1, state.shifts[0, 0] + 1):
        found = found or state.shifts[i, 0] == run
    return found


@inlined()
def pass_on(problem: Problem, state: State, part: int, back: int, work: float) -> int:
    """Shift filters worth about the work from the part, back or to a part that has some of the run; return where to."""
    run = draw_run(state, part)
    present, target = state.filters[run, part], back
    if np.random.random() < 0.5:
        target = draw_target(problem, state, run)
    amount = present
    if not problem.is_solid[run] and problem.work[run] > 0 and np.random.random() < 0.6:
        amount = min(present, int(work / problem.work[run] + np.random.random()))
    shift(problem, state, run, part, target, amount)
    return target


@inlined()
def close(problem: Problem, state: State, run: int, source: int) -> None:
    """Spread what a part has of a run over the other parts that have some of it, as far as there is room."""
    count = state.parts_of[run, 0]
    first = below(count)
    for i in range(count):
        part = state.parts_of[run, 1 + (first + i) % count]
        if part != source and state.load[part, 0] + problem.work[run] <= state.load[part, 1]:
            room = int((state.load[part, 1] - state.load[part, 0]) / problem.work[run])
            shift(problem, state, run, source, part, min(state.filters[run, source], room))
            if state.filters[run, source] == 0:
                return


@inlined()
def gather(problem: Problem, state: State, run: int, target: int) -> None:
    """Bring filters of a run to a part from others that have some, until the part is full."""
    for _ in range(4):
        room = int((state.load[target, 1] - state.load[target, 0]) / problem.work[run])
        source = open_part(state, run)
        shift(problem, state, run, source, target, max(0, min(room, state.filters[run, source])))


@inlined()
def exchange(problem: Problem, state: State, run: int, source: int, target: int) -> None:
    """Exchange what two parts have of a few consecutive runs."""
    last = min(len(problem.sizes), run + 2 + below(12))
    for other in range(run, last):
        amount = state.filters[other, source] - state.filters[other, target]
        shift(problem, state, other, source, target, amount)


@inlined()
def make_room(problem: Problem, state: State, run: int, part: int) -> None:
    """Close a part for a run, and half of the time use the room for more of another run that is there."""
    close(problem, state, run, part)
    if np.random.random() < 0.5 and state.runs_on[part, 0] > 0:
        other = draw_run(state, part)
        if problem.work[other] > 0 and not problem.is_solid[other] and other != run:
            gather(problem, state, other, part)


@inlined()
def carry(problem: Problem, state: State, run: int, source: int, target: int, along: bool) -> None:
    """Shift filters of a run, perhaps with its neighbours, then pass on what is too much from part to part."""
    amount = draw_amount(problem, state, run, source, target)
    shift(problem, state, run, source, target, amount)
    if along:
        shift_near(problem, state, 0.5)
    part = target
    while amount > 0 and part != source and state.runs_on[part, 0] > 0 and np.random.random() < CHAIN:
        excess = state.load[part, 0] - state.load[part, 1]
        part = pass_on(problem, state, part, source, excess if excess > 0 else amount * problem.work[run])


@inlined()
def move(problem: Problem, state: State) -> None:
    """Make a random move."""
    state.shifts[0, 0] = 0
    run = below(len(problem.sizes))
    source, dice = open_part(state, run), np.random.random()
    if dice < CLOSE and problem.work[run] > 0 and not problem.is_solid[run]:
        make_room(problem, state, run, source)
        return
    target = draw_target(problem, state, run)
    if dice > 1 - EXCHANGE:
        exchange(problem, state, run, source, target)
    elif target != source:
        carry(problem, state, run, source, target, dice > 1 - EXCHANGE - ALONG)


@entry(nogil=True)
def anneal(
    problem: Problem, state: State, best: Ints, best_bytes: float, schedule: Schedule, span: tuple[int, int, int]
) -> float:
    """Make moves span[0]..span[1] of span[2]; keep the best balanced shares in `best` and return their bytes."""
    heat, price = schedule.hot, schedule.cheap
    for step in range(span[0], span[1]):
        if step % 1000 == 0:
            heat, price = cooled(schedule, step / span[2])
            settle(problem, state)
        volume, excess = state.totals[0], state.totals[1]
        move(problem, state)
        worse = state.totals[0] - volume + price * (state.totals[1] - excess)
        if worse > 0 and np.random.random() >= np.exp(-worse / heat):
            take_back(problem, state)
            state.totals[0], state.totals[1] = volume, excess
        elif state.totals[0] < best_bytes - 0.5 and state.totals[1] <= problem.slack:
            settle(problem, state)
            if state.totals[1] <= problem.slack:
                best_bytes, best[:] = state.totals[0], state.filters
    return best_bytes


@entry()
def begin(problem: Problem, state: State) -> None:
    """Count what every part receives of every run."""
    for run in range(len(problem.sizes)):
        for part in range(len(state.load)):
            receive(problem, state, run, part)
