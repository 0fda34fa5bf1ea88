"""A timeline that exists is valid, and its times add up."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hyperplace.errors import HyperplaceError
from hyperplace.values.timeline import KINDS, Event, Timeline

# Two parts, three mini-batches; part 1 waits for part 0 and neither is idle in the middle.
PIPELINE = Timeline(
    2,
    (
        Event(0, "forward", "a", 0, 0, 10),
        Event(0, "forward", "a", 1, 10, 20),
        Event(0, "backward", "a", 0, 30, 50),
        Event(0, "update", "a", 0, 50, 52),
        Event(0, "forward", "a", 2, 52, 60),
        Event(1, "wait", "b", 0, 0, 10),
        Event(1, "forward", "b", 0, 10, 15),
        Event(1, "loss", "b", 0, 15, 16),
        Event(1, "backward", "b", 0, 16, 30),
        Event(1, "forward", "b", 1, 30, 40),
    ),
)


@st.composite
def timelines(draw):
    """Draw a timeline: per part a row of events with gaps between, then all shuffled."""
    num_parts = draw(st.integers(1, 4))
    events = []
    for part in range(num_parts):
        now = draw(st.floats(-1e6, 1e6))
        for _ in range(draw(st.integers(0, 6))):
            start = now + draw(st.sampled_from([0.0, 0.5, 1e3]))
            now = start + draw(st.floats(0, 1e5))
            events.append(
                Event(
                    part,
                    draw(st.sampled_from(KINDS)),
                    draw(st.sampled_from(["a", "b"])),
                    draw(st.integers(0, 9)),
                    start,
                    now,
                )
            )
    return Timeline(num_parts, tuple(draw(st.permutations(events))), draw(st.booleans()))


def test_who_takes_turns_is_not_crowded() -> None:
    # Both at work from 10 to 20 and from 30 to 40, one alone from 0 to 10, 20 to 30 and 40 to 60.
    assert PIPELINE.crowding == pytest.approx(2 * 20 / (2 * 20 + 40))
    turns = Timeline(2, (Event(0, "forward", "a", 0, 0, 10), Event(1, "forward", "b", 0, 10, 15)))
    assert turns.crowding == 0
    side_by_side = Timeline(3, tuple(Event(part, "forward", "a", 0, 5, 10) for part in range(3)))
    assert side_by_side.crowding == 1
    assert Timeline(1, turns.events[:1]).crowding == Timeline(2, ()).crowding == 0


@settings(max_examples=25)
@given(timelines())
def test_crowding_is_what_pairs_of_parts_share(timeline):
    works = [event for event in timeline.events if event.kind != "wait"]
    shared = sum(
        max(0.0, min(one.end_us, other.end_us) - max(one.start_us, other.start_us))
        for one in works
        for other in works
        if one.part != other.part
    )
    busy = float(timeline.busy_us.sum()) * (timeline.num_parts - 1)
    assert timeline.crowding == pytest.approx(shared / busy if busy else 0.0, abs=1e-6)


@settings(max_examples=25)
@given(timelines())
def test_busy_waiting_and_idle_are_the_span_of_every_part(timeline):
    total = timeline.busy_us + timeline.waiting_us + timeline.idle_us
    assert total == pytest.approx(np.full(timeline.num_parts, timeline.span_us), abs=0.1)
    for part in range(timeline.num_parts):
        own = [event for event in timeline.events if event.part == part and event.kind != "wait"]
        assert timeline.busy_us[part] == pytest.approx(sum(event.end_us - event.start_us for event in own))
        assert timeline.batches_per_part[part] == len({event.batch for event in own})
    assert np.all((timeline.bubble >= 0) & (timeline.bubble <= 1))


@settings(max_examples=25)
@given(timelines(), st.integers(0, 10), st.integers(0, 10))
def test_a_window_is_a_part_of_the_whole(timeline, low, high):
    window = timeline.between(low, high)
    assert window.span_us <= timeline.span_us
    assert np.all(window.busy_us <= timeline.busy_us + 1e-3)
    assert (window.num_parts, window.is_predicted) == (timeline.num_parts, timeline.is_predicted)


@settings(max_examples=25)
@given(timelines(), st.integers(0, 9))
def test_windows_side_by_side_hold_all_the_work(timeline, batch):
    nobody = 99
    if batch in timeline.batches:
        before, after = timeline.between(nobody, batch), timeline.between(batch, nobody)
        assert before.busy_us + after.busy_us == pytest.approx(timeline.busy_us, abs=0.1)


def test_the_hand_counted_pipeline():
    assert PIPELINE.span_us == 60
    assert PIPELINE.busy_us.tolist() == [50, 30]
    assert PIPELINE.waiting_us.tolist() == [0, 10]
    assert PIPELINE.idle_us.tolist() == [10, 20]
    assert PIPELINE.bubble.tolist() == pytest.approx([1 / 6, 1 / 2])
    assert PIPELINE.batches == (0, 1, 2)
    assert PIPELINE.batches_per_part.tolist() == [3, 2]
    assert repr(PIPELINE) == "Timeline(measured, 2 parts, 10 events of 3 mini-batches in 0.1 ms, bubble 33.3%)"


def test_the_steady_state_of_the_pipeline():
    window = PIPELINE.between(1, 2)
    assert (window.start_us, window.end_us) == (10, 52)
    assert window.busy_us.tolist() == [32, 30]
    assert window.waiting_us.tolist() == [0, 0]
    assert PIPELINE.between(0, 3) == PIPELINE
    assert PIPELINE.between(2, 3).events == (Event(0, "forward", "a", 2, 52, 60),)


def test_an_event_that_reaches_beyond_a_cut_is_shortened():
    assert PIPELINE.cut(35, 51).events == (
        Event(0, "backward", "a", 0, 35, 50),
        Event(0, "update", "a", 0, 50, 51),
        Event(1, "forward", "b", 1, 35, 40),
    )
    assert PIPELINE.cut(51, 35).events == ()


def test_nothing_took_no_time():
    nothing = Timeline(3, ())
    assert (nothing.span_us, nothing.batches) == (0, ())
    assert nothing.busy_us.tolist() == nothing.bubble.tolist() == nothing.batches_per_part.tolist() == [0, 0, 0]
    assert nothing.between(0, 1) == nothing


EVENT = Event(1, "forward", "a", 0, 1, 2)


@pytest.mark.parametrize(
    ("events", "fault"),
    [
        ([replace(EVENT, part=2)], r"is outside parts 0\.\.1"),
        ([replace(EVENT, part=10**30)], r"is outside parts 0\.\.1"),
        ([replace(EVENT, part=-1)], r"is outside parts 0\.\.1"),
        ([replace(EVENT, kind="sleep")], "is none of forward, recompute, backward, update, loss, wait"),
        ([replace(EVENT, batch=-1)], "has a negative mini-batch"),
        ([replace(EVENT, end_us=float("inf"))], "has a time that is no number up to"),
        ([replace(EVENT, end_us=1e300)], "has a time that is no number up to"),
        ([replace(EVENT, start_us=float("nan"))], "has a time that is no number up to"),
        ([replace(EVENT, end_us=0.5)], "ends before it starts"),
        ([EVENT, replace(EVENT, start_us=1.5, end_us=3)], r"start_us=1\.5, end_us=3\) starts before the one before"),
        ([replace(EVENT, end_us=0), replace(EVENT, part=5)], r"outside parts 0\.\.1; .* ends before it starts"),
    ],
)
def test_a_timeline_that_exists_is_valid(events, fault):
    with pytest.raises(HyperplaceError, match=rf"^not a timeline: .*{fault}"):
        Timeline(2, tuple(events))


@pytest.mark.parametrize("num_parts", [0, -1, 10**30])
def test_an_impossible_number_of_parts(num_parts):
    with pytest.raises(HyperplaceError, match=f"^not a timeline: it has {num_parts} parts$"):
        Timeline(num_parts, (EVENT,))


def test_events_that_touch_and_round_off_are_no_overlap():
    touching = (EVENT, replace(EVENT, start_us=2 - 1e-9, end_us=3), replace(EVENT, part=0))
    assert Timeline(2, touching).busy_us.tolist() == pytest.approx([1, 2])
