"""The inner loop of the hybrid local search, compiled by numba: shares of runs, each split by filters or by rows.

The state is the matrix of counts, how every run is split, and what can be updated beside it: what each part receives
of each run, the load of each part, volume and overload. All changes go through `put` and `turn`, which note them in a
journal, so that a move can be taken back. Overload is allowed at a price that rises as the temperature falls.
"""

from typing import NamedTuple

from hyperplace.machine_code import entry, inlined, inner
from hyperplace.steps.symmetric.compiled import delist, enlist
from hyperplace.values.arrays import Floats, Ints


class Problem(NamedTuple):
    """The runs as plain arrays; of links the first items are offsets into the same array."""

    sizes: Ints
    batch: int
    work: Floats  # of a whole run
    whole_bytes: Floats
    copy_bytes: Floats
    is_solid: Ints
    splits_rows: Ints
    readers: Ints  # the runs that read all of a run
    tied: Ints  # the runs that read a run channel by channel
    feeds: Ints  # the runs that a run reads all of, and, as -1 - run, those it reads channel by channel
    near: Ints  # all of these
    circle_of: Ints  # [run]: the circle of those that read all of it; runs that the same ones read have the same
    circles: Ints  # the circles a run is in
    members: Ints  # the runs of a circle
    slack: float  # of work, which rounding may add


class State(NamedTuple):
    """What the moves change."""

    counts: Ints  # [run, part]
    by_rows: Ints  # [run]
    received: Floats  # [run, part]: the bytes of the run that the part must receive
    wanted: Floats  # [circle, part]: the share of rows of which the part wants all filters
    is_changed: Ints  # [circle]: what the present put() has changed
    load: Floats  # [part, 0]: its work; [part, 1]: the most it may have, here and not in an array that costs a fifth
    totals: Floats  # volume, overload
    parts_of: Ints  # these three as in compiled.py
    runs_on: Ints
    places: Ints
    journal: Ints  # of the present move: how many and its number, then run, part (-1: turned), count before of each
    noted_in: Ints  # [run]: the number of the last move that changed it


@inlined()
def units_of(problem: Problem, state: State, run: int) -> int:
    return problem.batch if state.by_rows[run] else problem.sizes[run]


@inlined()
def share_of(problem: Problem, state: State, run: int, part: int) -> float:
    return float(state.counts[run, part] / units_of(problem, state, run))


@inlined()
def receive(problem: Problem, state: State, run: int, part: int) -> None:
    """Count again the bytes of a run that a part must receive."""
    rows, filters = state.wanted[problem.circle_of[run], part], 0.0  # of which all filters are wanted, and all rows
    for i in range(problem.tied[run], problem.tied[run + 1]):
        reader = problem.tied[i]
        share = share_of(problem, state, reader, part)
        if state.by_rows[reader]:
            rows = max(rows, share)
        else:
            filters = max(filters, share)
    own = share_of(problem, state, run, part)
    along, across = (rows, filters) if state.by_rows[run] else (filters, rows)
    beyond = max(0.0, along - own)
    total = problem.whole_bytes[run] * (beyond + (1.0 - own - beyond) * across)
    state.totals[0] += total - state.received[run, part]
    state.received[run, part] = total


@inlined()
def wish(problem: Problem, state: State, run: int, count: int) -> float:
    """Return of which share of rows a part with so much of a run wants all filters."""
    if count == 0:
        return 0.0
    return float(count / problem.batch) if state.by_rows[run] else 1.0


@inlined()
def want(problem: Problem, state: State, run: int, part: int, before: int) -> None:
    """Note what the circles of a run want now: only where the run was the most eager one all are asked again."""
    old = wish(problem, state, run, before)
    new = wish(problem, state, run, state.counts[run, part])
    for i in range(problem.circles[run], problem.circles[run + 1]):
        circle = problem.circles[i]
        most = state.wanted[circle, part]
        if new >= most:
            most = new
        elif old >= most:
            most = new
            for j in range(problem.members[circle], problem.members[circle + 1]):
                reader = problem.members[j]
                most = max(most, wish(problem, state, reader, state.counts[reader, part]))
        state.is_changed[circle] = int(most != state.wanted[circle, part])
        state.wanted[circle, part] = most


@inner()
def put(problem: Problem, state: State, run: int, part: int, count: int) -> None:
    """Set how much of a run a part has, and all that depends on it."""
    before = state.counts[run, part]
    if count == before:
        return
    note(state, run, part, before)
    excess = max(0.0, state.load[part, 0] - state.load[part, 1])
    state.counts[run, part] = count
    state.load[part, 0] += (count - before) * problem.work[run] / units_of(problem, state, run)
    state.totals[1] += max(0.0, state.load[part, 0] - state.load[part, 1]) - excess
    step = int(count > 0) - int(before > 0)
    if state.by_rows[run]:
        state.totals[0] += step * problem.copy_bytes[run]
    if step > 0:
        enlist(state, run, part)
    elif step < 0:
        delist(state, run, part)
    want(problem, state, run, part, before)
    receive(problem, state, run, part)
    for i in range(problem.feeds[run], problem.feeds[run + 1]):
        # -1 - run: it is read channel by channel, where every change counts
        feed = problem.feeds[i]
        if feed < 0:
            receive(problem, state, -1 - feed, part)
        elif state.is_changed[problem.circle_of[feed]]:
            receive(problem, state, feed, part)


@inner()
def turn(problem: Problem, state: State, run: int) -> None:
    """Split a run the other way; it must be on no part at this moment."""
    note(state, run, -1, 0)
    state.by_rows[run] = 1 - state.by_rows[run]
    # Of n parts n - 1 cost a copy: with none at all that is one less than nothing.
    state.totals[0] += -problem.copy_bytes[run] if state.by_rows[run] else problem.copy_bytes[run]


@inlined()
def note(state: State, run: int, part: int, before: int) -> None:
    i = state.journal[0, 0] + 1
    state.journal[i, 0], state.journal[i, 1], state.journal[i, 2] = run, part, before
    state.journal[0, 0] = i
    state.noted_in[run] = state.journal[0, 1]


@inlined()
def has_room(state: State) -> bool:
    """Say whether the journal has room for another change of a whole run."""
    return bool(state.journal[0, 0] + 3 * len(state.load) + 4 < len(state.journal))


@inner()
def take_back(problem: Problem, state: State) -> None:
    """Undo the present move."""
    for i in range(state.journal[0, 0], 0, -1):
        run, part, before = state.journal[i, 0], state.journal[i, 1], state.journal[i, 2]
        state.journal[0, 0] = i - 1  # put() notes itself in the line it undoes
        if part < 0:
            turn(problem, state, run)
        else:
            put(problem, state, run, part, before)
    state.journal[0, 0] = 0


@inner()
def settle(problem: Problem, state: State) -> None:
    """Add up volume and overload afresh, so that rounding does not pile up."""
    state.totals[:] = 0.0
    for run in range(len(problem.sizes)):
        if state.by_rows[run]:
            state.totals[0] += (state.parts_of[run, 0] - 1) * problem.copy_bytes[run]
        for part in range(len(state.load)):
            state.totals[0] += state.received[run, part]
    for part in range(len(state.load)):
        state.totals[1] += max(0.0, state.load[part, 0] - state.load[part, 1])


@entry()
def begin(problem: Problem, state: State) -> None:
    """Count what every part wants and receives of every run."""
    for circle in range(len(state.wanted)):
        for i in range(problem.members[circle], problem.members[circle + 1]):
            reader = problem.members[i]
            for part in range(len(state.load)):
                wanted = wish(problem, state, reader, state.counts[reader, part])
                state.wanted[circle, part] = max(state.wanted[circle, part], wanted)
    for run in range(len(problem.sizes)):
        for part in range(len(state.load)):
            receive(problem, state, run, part)
    settle(problem, state)
