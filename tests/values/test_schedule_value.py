"""Schedules are values: they print, parse and diff."""

import pytest
from schedule_cases import random_program

from hyperplace.errors import UsageError
from hyperplace.steps.schedule import schedule
from hyperplace.values.schedule import BACKWARD, FORWARD, UPDATE, Action, Schedule, parse_schedule


def schedules(seed):
    """Return a program's schedules: plain, with copies, with norms."""
    return [
        schedule(random_program(seed), 1 + seed % 5),
        schedule(random_program(seed, lends=True), 1 + seed % 5),
        schedule(random_program(seed, lends=True), 1 + seed % 5, clips=True),
    ]


@pytest.mark.parametrize("seed", range(25))
def test_what_is_printed_is_read_back(seed):
    for one in schedules(seed):
        assert parse_schedule(str(one)) == one


def test_the_text_is_as_promised():
    text = "part 0:  F0  B0-1  U-1\npart 1:\nconv1_weight of part 0: 2 ticks"
    found = parse_schedule(text)
    actions = (Action(FORWARD, 0), Action(BACKWARD, 0, 1), Action(UPDATE, 0, 1))
    assert found == Schedule((actions, ()), {(0, "conv1_weight"): 2})
    assert str(found) == text


@pytest.mark.parametrize("seed", range(25))
def test_a_diff_is_empty_for_what_is_equal_and_names_the_part_otherwise(seed):
    one, other, _ = schedules(seed)
    assert one.diff(one) == one.diff(parse_schedule(str(one))) == ""
    for p, row in enumerate(one.actions):
        if len(row) > 1:
            changed = Schedule((*one.actions[:p], row[::-1], *one.actions[p + 1 :]), one.delays)
            lines = one.diff(changed).splitlines()
            assert [line[:2] for line in lines] == ["- ", "+ "]
            assert all(line[2:].startswith(f"part {p}:") for line in lines)
    assert (one.diff(other) == "") == (one == other)


def test_a_diff_shows_other_delays():
    one, other = (parse_schedule(f"part 0:  F0  B0  U\nw of part 0: {ticks}") for ticks in ("1 tick", "2 ticks"))
    assert one.diff(other) == "- w of part 0: 1 tick\n+ w of part 0: 2 ticks"


REFUSED = {
    "another part's row": ("part 1:  F0", "line 1 of the schedule is of part 1, not of part 0"),
    "a part twice": ("part 0:  F0\npart 0:  B0", "line 2 of the schedule is of part 0, not of part 1"),
    "an unknown kind": ("part 0:  F0  X0", "line 1 of the schedule has 'X0'"),
    "no segment": ("part 0:  F", "line 1 of the schedule has 'F'"),
    "a negative offset": ("part 0:  F0--1", "line 1 of the schedule has 'F0--1'"),
    "something else": ("part 0:  F0\nhello", "line 2 of the schedule, 'hello', is no part and no delay"),
    "no number of ticks": ("part 0:  F0\nw of part 0: many ticks", "line 2 of the schedule"),
}


@pytest.mark.parametrize(("text", "said"), REFUSED.values(), ids=REFUSED)
def test_other_texts_are_refused_by_line(text, said):
    with pytest.raises(UsageError) as caught:
        parse_schedule(text)
    assert said in str(caught.value)
