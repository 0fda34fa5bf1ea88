"""The dry run agrees with one that was written without it, and refuses what would stand still."""

from dataclasses import replace

import pytest
from handmade import TWO_LINEARS
from schedule_cases import plain_dry_run, random_program

from hyperplace.errors import UsageError
from hyperplace.steps.schedule import schedule
from hyperplace.steps.schedule.schedule import needs_of
from hyperplace.steps.simulate import dry_run
from hyperplace.values.program import Receive, Send
from hyperplace.values.schedule import BACKWARD, FORWARD, Schedule

CASES = {
    "plain": (False, {}, ()),
    "with copies": (True, {}, ()),
    "with norms": (True, {"clips": True}, ()),
    "by relays": (True, {}, (0, 1, 1, 1)),
    "by relays with norms": (True, {"clips": True}, (0, 0, 1, 1)),
}


def case(seed, kind):
    lends, how, hosts = CASES[kind]
    program = random_program(seed, lends, hosts)
    return program, schedule(program, 1 + seed % 5, **how), how


@pytest.mark.parametrize("kind", CASES)
@pytest.mark.parametrize("seed", range(25))
def test_a_schedule_ends_in_both_dry_runs_and_takes_at_least_the_busiest_parts_work(seed, kind):
    program, found, how = case(seed, kind)
    num_batches = 6 * (found.depth + 1)
    assert plain_dry_run(program, found, num_batches, **how)
    ran = dry_run(program, found, num_batches)
    assert ran.period >= max(ran.busy) * (1 - 1e-9)
    assert ran.length >= num_batches * max(ran.busy) * (1 - 1e-9)
    assert ran.live == tuple(min(num_batches, found.live(p)) for p in range(len(program.parts)))


@pytest.mark.parametrize("kind", CASES)
@pytest.mark.parametrize("seed", range(25))
def test_of_two_actions_in_another_order_both_dry_runs_think_the_same(seed, kind):
    program, found, how = case(seed, kind)
    num_stuck = 0
    for p, row in enumerate(found.actions):
        for n in range(len(row) - 1):
            swapped = (*row[:n], row[n + 1], row[n], *row[n + 2 :])
            changed = Schedule((*found.actions[:p], swapped, *found.actions[p + 1 :]), found.delays)
            is_stuck = ends(lambda changed=changed: plain_dry_run(program, changed, 12, **how), AssertionError)
            assert is_stuck == ends(lambda changed=changed: dry_run(program, changed, 12), UsageError)
            num_stuck += is_stuck
    if any(len(part.segments) for part in program.parts) and found.depth == 0:
        assert num_stuck, "somewhere a backward pass came before its forward pass"


def ends(run, kind):
    try:
        run()
    except kind:
        return True
    return False


def test_a_missing_and_a_doubled_action_are_named():
    program, found, _ = case(3, "plain")
    p = next(p for p, row in enumerate(found.actions) if row)
    row = found.actions[p]
    for changed, count in ((row[1:], 0), ((*row, row[0]), 2)):
        bad = Schedule((*found.actions[:p], changed, *found.actions[p + 1 :]))
        with pytest.raises(UsageError, match=rf"has {row[0].kind}{row[0].segment} of part {p} {count} times"):
            dry_run(program, bad)
    with pytest.raises(UsageError, match=r"the schedule has .* parts, the program"):
        dry_run(program, Schedule(found.actions[1:]))


def test_an_update_that_is_to_be_seen_too_early_is_a_deadlock():
    """A mini-batch that waits for its own update, or for one that comes after it, waits for ever."""
    program, found, _ = case(8, "with copies")
    assert found.delays
    early = replace(found, delays=dict.fromkeys(found.delays, 0))
    with pytest.raises(UsageError, match="never ends"):
        dry_run(program, early)
    with pytest.raises(UsageError, match="does not say after how many ticks w of part"):
        dry_run(program, replace(found, delays={}))


@pytest.mark.parametrize("seed", range(25))
def test_no_more_bytes_are_held_than_there_are_where_one_mini_batch_is_under_way(seed):
    program = random_program(seed)
    ran = dry_run(program, schedule(program, 1), 1)
    for p, part in enumerate(program.parts):
        received = {take.message for one in part.segments for take in one.takes if isinstance(take, Receive)}
        taken = sum(4 * 4 * (1 + int(program.messages[number].name[1:])) for number in received)
        # Where nobody reads a layer, its backward pass may come before another's forward pass.
        assert ran.saved_bytes[p] <= taken + sum(one.saved_bytes for one in part.segments)
        assert ran.waiting_bytes[p] <= taken + 16 * 12 * len(list(sent(part)))
    assert ran.live == tuple(int(bool(part.segments)) for part in program.parts)


def test_bytes_of_a_chain_are_those_counted_by_hand():
    """Part 0 sends (4, 3) numbers of 8 bytes, 96, and is a mini-batch ahead."""
    saves = [replace(one, saved_bytes=1000) for part in TWO_LINEARS.program.parts for one in part.segments]
    parts = tuple(replace(part, segments=(one,)) for part, one in zip(TWO_LINEARS.program.parts, saves, strict=True))
    program = replace(TWO_LINEARS.program, parts=parts)
    ran = dry_run(program, schedule(program, 2))
    assert ran.live == (2, 1)
    assert ran.saved_bytes == (2000, 1096)
    assert ran.waiting_bytes == (0, 96), "part 0 waits for its gradients, part 1 has a mini-batch in store"
    assert ran.busy == (3.0, 3.0)
    assert ran.period == 3.0


def sent(part):
    return (give for one in part.segments for give in one.gives if isinstance(give, Send))


def test_every_action_waits_for_what_its_tensors_come_from():
    for seed in range(25):
        program = random_program(seed)
        needs = needs_of(program)
        sender = {
            give.message: (p, s)
            for p, part in enumerate(program.parts)
            for s, one in enumerate(part.segments)
            for give in one.gives
            if isinstance(give, Send)
        }
        for p, part in enumerate(program.parts):
            for s, one in enumerate(part.segments):
                for take in one.takes:
                    if isinstance(take, Receive):
                        q, n = sender[take.message]
                        assert (q, FORWARD, n) in needs[p, FORWARD, s]
                        assert (p, BACKWARD, s) in needs[q, BACKWARD, n]
