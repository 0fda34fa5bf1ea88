"""What a rank notes: work, waits between and within it, and how long it was busy without them."""

import pytest

from hyperplace.runtime import journal as journals
from hyperplace.runtime.journal import Journal

LONG_S, SHORT_S = 0.005, 0.0


class Clock:
    """Stands still while nobody rests."""

    def __init__(self):
        self.now_ns = 0

    def perf_counter_ns(self):
        return self.now_ns


CLOCK = Clock()


def rest(seconds):
    def run():
        CLOCK.now_ns += round(1e9 * seconds)

    return run


@pytest.fixture
def journal(monkeypatch):
    monkeypatch.setattr(journals, "time", CLOCK)
    made = Journal(is_kept=True)
    made.begin("forward", 3, 7)
    return made


def kinds(journal):
    return [record[0] for record in journal.records]


def test_a_wait_is_noted_but_is_not_busy(journal):
    journal.waited(rest(LONG_S))
    assert (kinds(journal), journal.busy_ns) == (["wait"], 0)


def test_a_long_wait_cuts_the_work_it_is_within_in_two(journal):
    journal.timed("forward", lambda: (rest(LONG_S)(), journal.waited(rest(LONG_S)), rest(LONG_S)()))
    assert kinds(journal) == ["forward", "wait", "forward"]
    assert all(one[4] == next_one[3] for one, next_one in zip(journal.records, journal.records[1:], strict=False))
    assert {record[1:3] for record in journal.records} == {(3, 7)}
    assert journal.busy_ns == sum(end - start for kind, _, _, start, end in journal.records if kind == "forward")


def test_a_short_wait_within_work_is_part_of_it(journal):
    journal.timed("forward", lambda: journal.waited(rest(SHORT_S)))
    assert kinds(journal) == ["forward"]


def test_a_wait_after_work_that_failed_is_one_of_its_own(journal):
    with pytest.raises(ZeroDivisionError):
        journal.timed("forward", lambda: 1 // 0)
    journal.waited(rest(SHORT_S))
    assert kinds(journal) == ["wait"]


def test_predictions_are_left_out(journal):
    journal.begin("forward", 0, -1)
    journal.timed("forward", lambda: journal.waited(rest(LONG_S)))
    assert (kinds(journal), journal.busy_ns) == ([], 0)
