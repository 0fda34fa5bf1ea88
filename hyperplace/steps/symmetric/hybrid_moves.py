"""The moves of the hybrid local search, and the annealing that makes them; compiled by numba."""
# ruff: noqa: NPY002 - compiled code draws from numba's own generator, which is seeded through the old names

import numpy as np

from hyperplace.machine_code import entry, inlined, inner
from hyperplace.steps.symmetric.compiled import Schedule, below, cooled, draw_near, draw_run, is_barred, open_part
from hyperplace.steps.symmetric.hybrid_annealing import (
    Problem,
    State,
    has_room,
    put,
    settle,
    share_of,
    take_back,
    turn,
    units_of,
)
from hyperplace.values.arrays import Ints

TURN, ADOPT, SPREAD, CLOSE, EXCHANGE, ALONG = 0.05, 0.1, 0.1, 0.08, 0.03, 0.2  # chances of the kinds of moves
CHAIN = 0.3  # chance that a shift is followed by another one


@inlined()
def draw_target(problem: Problem, state: State, run: int) -> int:
    """Draw the part to move to: mostly one where the run or a neighbour already is."""
    dice = np.random.random()
    if dice < 0.5:
        return open_part(state, draw_near(problem, run))
    if dice < 0.75:
        return open_part(state, run)
    return below(len(state.load))


@inlined()
def is_lump(problem: Problem, state: State, run: int) -> bool:
    """Say whether all of the run moves at once."""
    return bool(problem.is_solid[run]) and not state.by_rows[run]


@inlined()
def shift(problem: Problem, state: State, run: int, source: int, target: int, amount: int) -> None:
    """Take some of a run from a part to another that may have it; less than 0 goes back."""
    if amount == 0 or is_barred(state, run, target if amount > 0 else source):
        return
    if source != target and has_room(state):
        put(problem, state, run, source, state.counts[run, source] - amount)
        put(problem, state, run, target, state.counts[run, target] + amount)


@inlined()
def draw_amount(problem: Problem, state: State, run: int, source: int, target: int) -> int:
    """Draw how much to move: all, as much as fits, as much as is too much, as a neighbour has, or some."""
    present: int = state.counts[run, source]
    dice = np.random.random()
    amount, work = present, problem.work[run] / units_of(problem, state, run)
    if is_lump(problem, state, run):
        return present
    if dice < 0.2 and work > 0:
        amount = int((state.load[target, 1] - state.load[target, 0]) / work)
    elif dice < 0.4 and work > 0:
        amount = int(np.ceil((state.load[source, 0] - state.load[source, 1]) / work))
    elif dice < 0.6:
        amount = 1 + below(present) if dice < 0.5 else 1
    elif dice < 0.75:
        share = share_of(problem, state, draw_near(problem, run), target)
        amount = int(share * units_of(problem, state, run) + 0.5) - state.counts[run, target]
    return max(0, min(amount, present))


@inner()
def shift_near(problem: Problem, state: State, chance: float) -> None:
    """Let the neighbours of what was shifted come along in proportion, each with a chance, and their neighbours."""
    i = 1
    while i < state.journal[0, 0]:  # every shift is two lines: the source, then the target
        run, source, target = state.journal[i, 0], state.journal[i, 1], state.journal[i + 1, 1]
        moved = state.journal[i, 2] - state.counts[run, source]
        share = moved / units_of(problem, state, run)
        i += 2
        for j in range(problem.near[run], problem.near[run + 1]):
            near = problem.near[j]
            if np.random.random() < chance and not is_changed(state, near):
                present = state.counts[near, source]
                wanted = int(share * units_of(problem, state, near) + 0.5)
                shift(
                    problem,
                    state,
                    near,
                    source,
                    target,
                    present if is_lump(problem, state, near) else min(present, wanted),
                )


@inlined()
def is_changed(state: State, run: int) -> bool:
    return bool(state.noted_in[run] == state.journal[0, 1])


@inlined()
def lift(problem: Problem, state: State, run: int) -> None:
    """Take a run from all parts."""
    while state.parts_of[run, 0] > 0:
        put(problem, state, run, state.parts_of[run, 1], 0)


@inner()
def lay(problem: Problem, state: State, run: int, parts: Ints, shares: Ints, total: int) -> None:
    """Put a lifted run on the parts in proportion to their shares, which sum up to the total."""
    units, done, given = units_of(problem, state, run), 0, 0
    if is_lump(problem, state, run):
        put(problem, state, run, parts[np.argmax(shares)], units)
        return
    for i in range(len(parts)):
        done += shares[i]
        upto = (2 * done * units + total) // (2 * total)
        put(problem, state, run, parts[i], upto - given)
        given = upto


@inner()
def turn_run(problem: Problem, state: State, run: int) -> None:
    """Split a run the other way, over the same parts in proportion."""
    if problem.splits_rows[run] and has_room(state):
        parts = state.parts_of[run, 1 : 1 + state.parts_of[run, 0]].copy()
        shares, total = state.counts[run][parts], units_of(problem, state, run)
        lift(problem, state, run)
        turn(problem, state, run)
        lay(problem, state, run, parts, shares, total)


@inner()
def adopt(problem: Problem, state: State, run: int, model: int) -> None:
    """Split and place a run like another one."""
    if not has_room(state) or run == model:
        return
    parts = state.parts_of[model, 1 : 1 + state.parts_of[model, 0]].copy()
    for part in parts:
        if is_barred(state, run, part):
            return
    shares, total = state.counts[model][parts], units_of(problem, state, model)
    lift(problem, state, run)
    if state.by_rows[run] != state.by_rows[model] and problem.splits_rows[run]:
        turn(problem, state, run)
    lay(problem, state, run, parts, shares, total)


@inner()
def pass_on_to_near(problem: Problem, state: State, run: int, chance: float) -> None:
    """Let neighbours adopt a run's places, and theirs after them, each with a chance."""
    while np.random.random() < chance and has_room(state):
        near = draw_near(problem, run)
        if is_changed(state, near):
            return
        adopt(problem, state, near, run)
        run = near


@inner()
def spread(problem: Problem, state: State, run: int) -> None:
    """Share a run out evenly over its parts, perhaps with one more or one less, and neighbours with it."""
    if not has_room(state) or is_lump(problem, state, run):
        return
    count, dice = state.parts_of[run, 0], np.random.random()
    parts = np.empty(count + 1, np.int64)
    parts[:count] = state.parts_of[run, 1 : 1 + count]
    if dice < 0.4:
        parts[count] = below(len(state.load)) if dice < 0.2 else open_part(state, draw_near(problem, run))
        if is_barred(state, run, parts[count]):
            return
        for i in range(count):
            if parts[i] == parts[count]:
                return
        count += 1
    elif dice < 0.7 and count > 1:
        parts[below(count)] = parts[count - 1]
        count -= 1
    chosen = parts[:count].copy()
    lift(problem, state, run)
    lay(problem, state, run, chosen, np.ones(count, np.int64), count)
    pass_on_to_near(problem, state, run, 0.6)


@inner()
def pass_on(problem: Problem, state: State, part: int, back: int, work: float) -> int:
    """Shift about so much work from the part, back or to a part that has some of the run; return where to."""
    run = draw_run(state, part)
    present, target = state.counts[run, part], back
    if np.random.random() < 0.5:
        target = draw_target(problem, state, run)
    amount, unit = present, problem.work[run] / units_of(problem, state, run)
    if not is_lump(problem, state, run) and unit > 0 and np.random.random() < 0.6:
        amount = min(present, int(work / unit + np.random.random()))
    shift(problem, state, run, part, target, amount)
    return target


@inner()
def close(problem: Problem, state: State, run: int, source: int) -> None:
    """Spread what a part has of a run over the other parts that have some of it, as far as there is room."""
    count, work = state.parts_of[run, 0], problem.work[run] / units_of(problem, state, run)
    first = below(count)
    for i in range(count):
        part = state.parts_of[run, 1 + (first + i) % count]
        if part != source and state.load[part, 0] + work <= state.load[part, 1]:
            room = int((state.load[part, 1] - state.load[part, 0]) / work)
            shift(problem, state, run, source, part, min(state.counts[run, source], room))
            if state.counts[run, source] == 0:
                return


@inner()
def exchange(problem: Problem, state: State, run: int, source: int, target: int) -> None:
    """Exchange what two parts have of a few consecutive runs."""
    for other in range(run, min(len(problem.sizes), run + 2 + below(12))):
        shift(problem, state, other, source, target, state.counts[other, source] - state.counts[other, target])


@inner()
def carry(problem: Problem, state: State, run: int, source: int, target: int, along: bool) -> None:
    """Shift some of a run, perhaps with its neighbours, then pass on what is too much from part to part."""
    amount = draw_amount(problem, state, run, source, target)
    work = amount * problem.work[run] / units_of(problem, state, run)
    shift(problem, state, run, source, target, amount)
    if along:
        shift_near(problem, state, 0.6)
    part = target
    while amount > 0 and part != source and state.runs_on[part, 0] > 0 and np.random.random() < CHAIN:
        excess = state.load[part, 0] - state.load[part, 1]
        part = pass_on(problem, state, part, source, excess if excess > 0 else work)


@inner()
def move(problem: Problem, state: State) -> None:
    """Make a random move."""
    state.journal[0, 0] = 0
    state.journal[0, 1] += 1
    run = below(len(problem.sizes))
    dice = np.random.random()
    if dice < TURN:
        turn_run(problem, state, run)
        if np.random.random() < 0.5:
            pass_on_to_near(problem, state, run, 0.6)
        return
    dice -= TURN
    if dice < ADOPT:
        adopt(problem, state, run, draw_near(problem, run))
        pass_on_to_near(problem, state, run, 0.5)
        return
    dice -= ADOPT
    if dice < SPREAD:
        spread(problem, state, run)
        return
    dice -= SPREAD
    source = open_part(state, run)
    if dice < CLOSE and problem.work[run] > 0 and not is_lump(problem, state, run):
        close(problem, state, run, source)
        return
    dice -= CLOSE
    target = draw_target(problem, state, run)
    if dice < EXCHANGE:
        exchange(problem, state, run, source, target)
    elif target != source:
        carry(problem, state, run, source, target, dice < EXCHANGE + ALONG)


@entry(nogil=True)
def anneal(
    problem: Problem,
    state: State,
    best: tuple[Ints, Ints],
    best_bytes: float,
    schedule: Schedule,
    span: tuple[int, int, int],
) -> float:
    """Make moves span[0]..span[1] of span[2]; keep the best balanced counts and ways in `best`, return their bytes."""
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
                best_bytes = state.totals[0]
                best[0][:], best[1][:] = state.counts, state.by_rows
    return best_bytes
