"""A schedule is known before anything runs: it never deadlocks, never has too much in flight, and overlaps work."""

from dataclasses import replace

import pytest
from handmade import TWO_LINEARS, ZIGZAG
from schedule_cases import lenders_of, plain_dry_run, random_program, times_of, vias_of

from hyperplace.steps.schedule import schedule
from hyperplace.steps.schedule.schedule import _delay, _Problem
from hyperplace.values.program import Copy, PartProgram, Piece, Program
from hyperplace.values.schedule import BACKWARD, FORWARD, NORM, PASS, RELAY, UPDATE, parse_schedule

CHAIN = TWO_LINEARS.program


def chain_where(weights):
    """Return the chain with other weights, which all segments use."""
    parts = [
        replace(part, weights=own, segments=tuple(replace(one, weights=None) for one in part.segments))
        for part, own in zip(CHAIN.parts, weights, strict=True)
    ]
    return replace(CHAIN, parts=tuple(parts))


@pytest.mark.parametrize("in_flight", [1, 2, 3, 5])
@pytest.mark.parametrize("seed", range(25))
def test_laws_of_a_schedule(seed, in_flight):
    program = random_program(seed)
    found = schedule(program, in_flight)
    for part, row in zip(program.parts, found.actions, strict=True):
        wanted = {(kind, s) for kind in (FORWARD, BACKWARD) for s in range(len(part.segments))}
        assert {(a.kind, a.segment) for a in row} == wanted
        assert len(row) == len(wanted)
        assert all(0 <= a.offset < in_flight for a in row)
    order = plain_dry_run(program, found, 6)
    assert len(order) == 6 * 2 * sum(len(part.segments) for part in program.parts)
    assert schedule(program, in_flight) == found


def test_one_mini_batch_in_flight_is_forward_then_backward():
    assert str(schedule(CHAIN, 1)) == "part 0:  F0  B0\npart 1:  F0  B0"
    assert str(schedule(ZIGZAG.program, 1)) == "part 0:  F0  F1  B1  B0\npart 1:  F0  B0"


def test_two_in_flight_keep_both_parts_of_a_chain_busy():
    assert str(schedule(CHAIN, 2)) == "part 0:  F0  B0-1\npart 1:  F0  B0"


def test_a_part_holds_no_more_mini_batches_than_its_actions_span():
    found = schedule(CHAIN, 2)
    assert [found.live(part) for part in (0, 1)] == [2, 1]
    assert [schedule(CHAIN, 1).live(part) for part in (0, 1)] == [1, 1]


def test_a_part_without_segments_has_nothing_to_do():
    idle = Program("idle", inputs=((1,),), parts=(PartProgram(),), batch=1)
    assert schedule(idle, 3).actions == ((),)


@pytest.mark.parametrize("in_flight", [1, 2, 3, 5])
@pytest.mark.parametrize("seed", range(25))
def test_parts_that_lend_update_once_all_gradients_are_there(seed, in_flight):
    program = random_program(seed, lends=True)
    lenders = lenders_of(program)
    found = schedule(program, in_flight)
    assert {p for p, row in enumerate(found.actions) for a in row if a.kind == UPDATE} == lenders.keys()
    assert all(0 <= a.offset < in_flight for row in found.actions for a in row)
    order = plain_dry_run(program, found, 6)
    place = {item: n for n, item in enumerate(order)}
    for p, borrowers in lenders.items():
        for batch in range(6):
            backward = [
                (batch, (q, BACKWARD, s)) for q in (p, *borrowers) for s in range(len(program.parts[q].segments))
            ]
            assert all(place[item] < place[batch, (p, UPDATE, 0)] for item in backward)


@pytest.mark.parametrize("in_flight", [1, 2, 3, 5])
@pytest.mark.parametrize("seed", range(25))
def test_an_update_is_seen_as_soon_as_nobody_can_wait_in_a_circle(seed, in_flight):
    program = random_program(seed, lends=True)
    lenders = lenders_of(program)
    found = schedule(program, in_flight)
    spans, period = times_of(program, in_flight)
    assert found.delays.keys() == {(p, "w") for p in lenders}
    for p, borrowers in lenders.items():
        users = [(q, s) for q in (p, *borrowers) for s in range(len(program.parts[q].segments))]
        delay = found.delays[p, "w"]
        begin, end = spans[p, UPDATE, 0]
        first = min(spans[q, FORWARD, s][0] for q, s in users)
        assert 1 <= delay <= found.depth + 1, "after the pipe has run dry everybody sees the newest weights"
        assert begin < first + delay * period, "who waits for an update waits for what begins earlier"
        assert delay == 1 or end > first + (delay - 1) * period, "no later than need be"
        row = found.actions[p]
        update = next((a.offset, n) for n, a in enumerate(row) if a.kind == UPDATE)
        forward = [(a.offset + delay, n) for n, a in enumerate(row) if a.kind == FORWARD]
        assert all(update < one for one in forward), "the owner's own order says the same"


@pytest.mark.parametrize("in_flight", [1, 2, 3, 4, 8])
@pytest.mark.parametrize("seed", range(40))
def test_parts_that_share_a_norm_update_once_all_have_told_theirs(seed, in_flight):
    """The dry run has no way out of a circle: a part stands still until what its next action needs is done."""
    program = random_program(seed, lends=True)
    lenders = {p: set() for p in range(len(program.parts))} | lenders_of(program)
    found = schedule(program, in_flight, clips=True)
    assert all(0 <= a.offset < in_flight for row in found.actions for a in row)
    order = plain_dry_run(program, found, 6, clips=True)
    place = {item: n for n, item in enumerate(order)}
    for batch in range(6):
        last_norm = max(place[batch, (p, NORM, 0)] for p in lenders)
        assert all(last_norm < place[batch, (p, UPDATE, 0)] for p in lenders)
        for p, borrowers in lenders.items():
            backward = [
                (batch, (q, BACKWARD, s)) for q in (p, *borrowers) for s in range(len(program.parts[q].segments))
            ]
            assert all(place[item] < place[batch, (p, NORM, 0)] for item in backward)


@pytest.mark.parametrize("clips", [False, True])
@pytest.mark.parametrize("hosts", [(0, 0, 1, 1), (0, 1, 1, 1)], ids=str)
def test_relays_add_up_before_the_owner_updates_and_pass_on_after(hosts, clips):
    num_relays = 0
    for seed in range(100):
        program = random_program(seed, True, hosts)
        found, vias = schedule(program, 1 + seed % 5, clips=clips), vias_of(program)
        place = {item: n for n, item in enumerate(plain_dry_run(program, found, 6, clips=clips))}
        for (owner, part), relay in vias.items():
            num_relays += 1
            for batch in range(6):
                adds, update, passes = (
                    place[batch, node] for node in ((relay, RELAY, 0), (owner, UPDATE, 0), (relay, PASS, 0))
                )
                segments = range(len(program.parts[part].segments))
                assert all(place[batch, (part, BACKWARD, s)] < adds for s in segments)
                assert adds < update < passes
                assert adds < place[batch, (relay, UPDATE, 0)] < passes, (
                    "where all write together, it writes in between"
                )
                seen = batch + found.delays[owner, "w"]
                assert seen > 5 or all(passes < place[seen, (part, FORWARD, s)] for s in segments)
        assert {a.kind for row in found.actions for a in row} >= ({RELAY, PASS} if vias else set())
        assert parse_schedule(str(found)) == found
    assert num_relays > 5


def test_a_norm_is_printed_in_its_place():
    assert str(schedule(CHAIN, 1, clips=True)) == "part 0:  F0  B0  N  U\npart 1:  F0  B0  N  U"


def test_nothing_changes_where_nobody_lends():
    for seed in range(10):
        program = random_program(seed)
        bare = replace(program, parts=tuple(replace(part, weights={}) for part in program.parts))
        assert schedule(program, 3) == schedule(bare, 3) == schedule(program, 3, is_sync=True)


def test_in_sync_parts_update_on_a_command_of_their_own_whoever_lends():
    for seed in range(10):
        program = random_program(seed, lends=True)
        found = schedule(program, 3, is_sync=True)
        assert found == schedule(random_program(seed), 3, is_sync=True)
        assert not found.delays


def test_an_update_is_printed_in_its_place():
    mine, copy = Piece("w", (2,)), {"copy": Copy("w", (2,), owner=0)}
    found = schedule(chain_where([{"w": mine}, copy]), 1)
    assert str(found) == "part 0:  F0  B0  U\npart 1:  F0  B0\nw of part 0: 1 tick"
    found = schedule(chain_where([{"copy": Copy("w", (2,), owner=1)}, {"w": mine}]), 1)
    assert str(found) == "part 0:  F0  B0\npart 1:  F0  B0  U\nw of part 1: 1 tick"


def test_an_update_across_the_end_of_its_tick_is_not_too_late_after_a_flush():
    """A flush runs `depth` empty ticks; a mini-batch after it must see all updates before."""
    spans = {(0, FORWARD, 0): (0.25, 1.0), (0, BACKWARD, 0): (4.5, 6.0), (0, UPDATE, 0): (7.75, 8.5)}
    users = [({(0, UPDATE, 0)}, (0, 0))]
    assert _delay(_Problem({}, {}, {}), spans, 4.0, users, most=2) == 2


@pytest.mark.parametrize("what", ["forward", "backward", "update"])
def test_the_order_follows_the_work_of_every_pass(what):
    """A segment whose work is all in one pass makes the period as long as one that has it in another."""
    busy = [replace(one, **{"forward": 0.0, "backward": 0.0, what: 900.0}) for one in CHAIN.parts[0].segments]
    program = replace(CHAIN, parts=(replace(CHAIN.parts[0], segments=tuple(busy)), CHAIN.parts[1]))
    spans, period = times_of(program, 2)
    kind = FORWARD if what == "forward" else BACKWARD
    begin, end = spans[0, kind, 0]
    assert end - begin == pytest.approx(900)
    assert period >= 900
