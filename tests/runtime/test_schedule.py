"""A schedule is known before anything runs: it never deadlocks, never has too much in flight, and overlaps work."""

import numpy as np
import pytest
from handmade import TWO_LINEARS, ZIGZAG

from hyperplace.runtime.schedule import BACKWARD, FORWARD, NORM, UPDATE, Action, Schedule, dependencies, schedule
from hyperplace.runtime.table import Feed, Keep, Receive, Segment, Send

CHAIN = [part.segments for part in TWO_LINEARS.parts]


def random_parts(seed):
    """Return segment tables as a generator would make them: layers in order, each reading some earlier ones."""
    rng = np.random.default_rng(seed)
    num_parts, num_layers = int(rng.integers(1, 5)), int(rng.integers(1, 12))
    part_of = rng.integers(0, num_parts, num_layers)
    reads = [
        sorted({int(r) for r in rng.integers(0, n, int(rng.integers(1, 3)))} if n else ()) for n in range(num_layers)
    ]
    parts = [[] for _ in range(num_parts)]
    for layer in range(num_layers):
        p = int(part_of[layer])
        takes = [Feed(0, "0:1")] if not reads[layer] else []
        for r in reads[layer]:
            takes.append(Keep(f"v{r}") if part_of[r] == p else Receive(f"v{r}", source=int(part_of[r])))
        targets = {int(part_of[n]) for n in range(num_layers) if layer in reads[n]}
        gives = [Keep(f"v{layer}") if q == p else Send(f"v{layer}", target=q) for q in sorted(targets)]
        parts[p].append(Segment(f"s{layer}", tuple(takes), tuple(gives), (f"v{layer}",), int(rng.integers(0, 50))))
    return parts


def dry_run(parts, rows, num_batches, depth, lenders=None, **norms):
    """Run the rows tick by tick, every part in its own order, and return the actions in an order that worked."""
    needs = dependencies(parts, lenders, **norms)
    todo = [
        [
            (t - a.offset, (p, a.kind, a.segment))
            for t in range(num_batches + depth)
            for a in row
            if 0 <= t - a.offset < num_batches
        ]
        for p, row in enumerate(rows)
    ]
    done, order = set(), []
    while any(todo):
        ready = [
            p
            for p, actions in enumerate(todo)
            if actions and all((actions[0][0], n) in done for n in needs[actions[0][1]])
        ]
        assert ready, f"deadlock before {[actions[0] for actions in todo if actions]}"
        for p in ready:
            done.add(todo[p][0])
            order.append(todo[p].pop(0))
    return order


@pytest.mark.parametrize("in_flight", [1, 2, 3, 5])
@pytest.mark.parametrize("seed", range(25))
def test_laws_of_a_schedule(seed, in_flight):
    parts = random_parts(seed)
    found = schedule(parts, in_flight)
    for segments, row in zip(parts, found.actions, strict=True):
        wanted = {(kind, s) for kind in (FORWARD, BACKWARD) for s in range(len(segments))}
        assert {(a.kind, a.segment) for a in row} == wanted
        assert len(row) == len(wanted)
        assert all(0 <= a.offset < in_flight for a in row)
    order = dry_run(parts, found.actions, 6, found.depth)
    assert len(order) == 6 * 2 * sum(map(len, parts))
    assert schedule(parts, in_flight) == found


def test_one_mini_batch_in_flight_is_forward_then_backward():
    assert str(schedule(CHAIN, 1)) == "part 0:  F0  B0\npart 1:  F0  B0"
    assert str(schedule([part.segments for part in ZIGZAG.parts], 1)) == "part 0:  F0  F1  B1  B0\npart 1:  F0  B0"


def test_two_in_flight_keep_both_parts_of_a_chain_busy():
    assert str(schedule(CHAIN, 2)) == "part 0:  F0  B0-1\npart 1:  F0  B0"


def test_a_part_holds_no_more_mini_batches_than_its_actions_span():
    found = schedule(CHAIN, 2)
    assert [found.live(part) for part in (0, 1)] == [2, 1]
    assert [schedule(CHAIN, 1).live(part) for part in (0, 1)] == [1, 1]


def test_a_part_without_segments_has_nothing_to_do():
    assert schedule([[], *CHAIN[:0]], 3).actions == ((),)


def random_lenders(parts, seed):
    """Return who lends to whom; only parts that run something borrow."""
    rng = np.random.default_rng(seed)
    busy = [p for p, segments in enumerate(parts) if segments]
    lenders = {p: {q for q in busy if q != p and rng.random() < 0.5} for p in range(len(parts))}
    return {p: borrowers for p, borrowers in lenders.items() if borrowers}


@pytest.mark.parametrize("in_flight", [1, 2, 3, 5])
@pytest.mark.parametrize("seed", range(25))
def test_parts_that_lend_update_once_all_gradients_are_there(seed, in_flight):
    parts = random_parts(seed)
    lenders = random_lenders(parts, seed)
    found = schedule(parts, in_flight, lenders)
    assert {p for p, row in enumerate(found.actions) for a in row if a.kind == UPDATE} == lenders.keys()
    assert all(0 <= a.offset < in_flight for row in found.actions for a in row)
    order = dry_run(parts, found.actions, 6, found.depth, lenders)
    place = {item: n for n, item in enumerate(order)}
    for p, borrowers in lenders.items():
        for batch in range(6):
            backward = [(batch, (q, BACKWARD, s)) for q in (p, *borrowers) for s in range(len(parts[q]))]
            assert all(place[item] < place[batch, (p, UPDATE, 0)] for item in backward)


@pytest.mark.parametrize("in_flight", [1, 2, 3, 5])
@pytest.mark.parametrize("seed", range(25))
def test_an_update_is_seen_as_soon_as_nobody_can_wait_in_a_circle(seed, in_flight):
    parts = random_parts(seed)
    lenders = random_lenders(parts, seed)
    found = schedule(parts, in_flight, lenders)
    for p, borrowers in lenders.items():
        users = [(q, s) for q in (p, *borrowers) for s in range(len(parts[q]))]
        delay = found.delay(p, users)
        begin, end = found.spans[p, UPDATE, 0]
        first = min(found.spans[q, FORWARD, s][0] for q, s in users)
        assert 1 <= delay <= found.depth + 1, "after the pipe has run dry everybody sees the newest weights"
        assert begin < first + delay * found.period, "who waits for an update waits for what begins earlier"
        assert delay == 1 or end > first + (delay - 1) * found.period, "no later than need be"
        row = found.actions[p]
        update = next((a.offset, n) for n, a in enumerate(row) if a.kind == UPDATE)
        forward = [(a.offset + delay, n) for n, a in enumerate(row) if a.kind == FORWARD]
        assert all(update < one for one in forward), "the owner's own order says the same"


@pytest.mark.parametrize("in_flight", [1, 2, 3, 4, 8])
@pytest.mark.parametrize("seed", range(40))
def test_parts_that_share_a_norm_update_once_all_have_told_theirs(seed, in_flight):
    """The dry run has no way out of a circle: a part stands still until what its next action needs is done."""
    parts = random_parts(seed)
    lenders = {p: set() for p in range(len(parts))} | random_lenders(parts, seed)
    found = schedule(parts, in_flight, lenders, with_norms=True)
    assert all(0 <= a.offset < in_flight for row in found.actions for a in row)
    order = dry_run(parts, found.actions, 6, found.depth, lenders, with_norms=True)
    place = {item: n for n, item in enumerate(order)}
    for batch in range(6):
        last_norm = max(place[batch, (p, NORM, 0)] for p in lenders)
        assert all(last_norm < place[batch, (p, UPDATE, 0)] for p in lenders)
        for p, borrowers in lenders.items():
            backward = [(batch, (q, BACKWARD, s)) for q in (p, *borrowers) for s in range(len(parts[q]))]
            assert all(place[item] < place[batch, (p, NORM, 0)] for item in backward)


def test_a_norm_is_printed_in_its_place():
    assert (
        str(schedule(CHAIN, 1, {0: set(), 1: set()}, with_norms=True)) == "part 0:  F0  B0  N  U\npart 1:  F0  B0  N  U"
    )


def test_nothing_changes_where_nobody_lends():
    for seed in range(10):
        parts = random_parts(seed)
        assert str(schedule(parts, 3, {})) == str(schedule(parts, 3))


def test_an_update_is_printed_in_its_place():
    assert str(schedule(CHAIN, 1, {0: {1}})) == "part 0:  F0  B0  U\npart 1:  F0  B0"
    found = schedule(CHAIN, 1, {1: {0}})
    assert str(found) == "part 0:  F0  B0\npart 1:  F0  B0  U"
    assert found.delay(1, [(0, 0), (1, 0)]) == 1


def test_an_update_across_the_end_of_its_tick_is_not_too_late_after_a_flush():
    """A flush runs `depth` empty ticks; a mini-batch after it must see all updates before."""
    actions = ((Action(FORWARD, 0), Action(BACKWARD, 0, 1), Action(UPDATE, 0, 1)),)
    spans = {(0, FORWARD, 0): (0.25, 1.0), (0, BACKWARD, 0): (4.5, 6.0), (0, UPDATE, 0): (7.75, 8.5)}
    found = Schedule(actions, spans, period=4.0)
    assert found.delay(0, [(0, 0)]) == 2 == found.depth + 1
