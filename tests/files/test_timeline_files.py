"""timeline.json reads back what was written; the Chrome trace says the same as the timeline."""

import json
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hyperplace.errors import FileError
from hyperplace.files.timeline import parse_timeline, timeline_text, trace_text
from hyperplace.values.timeline import KINDS, Event, Timeline

ODD_NAMES = ['"quoted"', "two\nlines", "µ → 漢字 🙂", "</script>", "\\", "", "\x00", "\ud800", "a" * 500]
TIMELINE = Timeline(
    2,
    (
        Event(0, "forward", "features.0", 0, 1e9, 1e9 + 0.25),
        Event(1, "wait", "features.3", 0, 1e9, 1e9 + 0.25),
        Event(1, "forward", "features.3", 0, 1e9 + 0.25, 1e9 + 7.125),
    ),
)


@st.composite
def timelines(draw):
    """Draw a timeline whose parts go from event to event, with and without a gap."""
    num_parts, events = draw(st.integers(1, 3)), []
    for part in range(num_parts):
        now = draw(st.floats(0, 1e9))
        for _ in range(draw(st.integers(0, 4))):
            start = now + draw(st.sampled_from([0.0, 0.3]))
            now = start + draw(st.floats(0, 1e5))
            kind, name = draw(st.sampled_from(KINDS)), draw(st.sampled_from(ODD_NAMES))
            events.append(Event(part, kind, name, draw(st.integers(0, 9)), start, now))
    return Timeline(num_parts, tuple(events), draw(st.booleans()))


def complete_events(timeline):
    return [event for event in json.loads(trace_text(timeline))["traceEvents"] if event["ph"] == "X"]


@settings(max_examples=25)
@given(timelines())
def test_reads_back_what_it_wrote(timeline):
    assert parse_timeline(timeline_text(timeline), "t.json") == timeline


@settings(max_examples=25)
@given(timelines())
def test_the_trace_says_the_same_and_no_thread_does_two_things_at_once(timeline):
    events = complete_events(timeline)
    by_start = sorted(timeline.events, key=lambda event: (event.start_us, event.end_us, event.part))
    assert [(e["tid"], e["cat"], e["args"]["segment"], e["args"]["batch"]) for e in events] == [
        (e.part, e.kind, e.name, e.batch) for e in by_start
    ]
    for written, event in zip(events, by_start, strict=True):
        assert written["ts"] == pytest.approx(event.start_us - timeline.start_us, abs=2e-3)
        assert written["dur"] == pytest.approx(event.end_us - event.start_us, abs=2e-3)
    for part in range(timeline.num_parts):
        own = [(e["ts"], e["ts"] + e["dur"]) for e in events if e["tid"] == part]
        assert all(start >= end - 1e-4 for (_, end), (start, _) in pairwise(own))


def test_the_trace_in_full():
    metadata = [
        ("process_name", 0, {"name": "hyperplace"}),
        ("thread_name", 0, {"name": "part 0"}),
        ("thread_sort_index", 0, {"sort_index": 0}),
        ("thread_name", 1, {"name": "part 1"}),
        ("thread_sort_index", 1, {"sort_index": 1}),
    ]
    done = [
        ("forward features.0", "forward", 0, 0.0, 0.25, {"segment": "features.0", "batch": 0}),
        ("wait features.3", "wait", 1, 0.0, 0.25, {"segment": "features.3", "batch": 0}),
        ("forward features.3", "forward", 1, 0.25, 6.875, {"segment": "features.3", "batch": 0}),
    ]
    assert json.loads(trace_text(TIMELINE)) == {
        "displayTimeUnit": "ms",
        "traceEvents": [
            *({"ph": "M", "name": name, "pid": 1, "tid": tid, "args": args} for name, tid, args in metadata),
            *(
                {"ph": "X", "name": name, "cat": cat, "pid": 1, "tid": tid, "ts": ts, "dur": dur, "args": args}
                for name, cat, tid, ts, dur, args in done
            ),
        ],
    }


@pytest.mark.parametrize("name", ODD_NAMES)
def test_odd_names_survive_both_files(name):
    odd = replace(TIMELINE, events=tuple(replace(event, name=name) for event in TIMELINE.events))
    assert parse_timeline(timeline_text(odd), "t.json") == odd
    assert {event["args"]["segment"] for event in complete_events(odd)} == {name}
    trace_text(odd).encode()


def test_a_predicted_timeline_says_so():
    (process,) = (
        event
        for event in json.loads(trace_text(replace(TIMELINE, is_predicted=True)))["traceEvents"]
        if event["name"] == "process_name"
    )
    assert process["args"] == {"name": "hyperplace, predicted"}


def edited(key, to):
    data = json.loads(timeline_text(TIMELINE))
    data["events"][0][key] = to
    return json.dumps(data)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (timeline_text(TIMELINE)[:100], "not a timeline file, or cut short"),
        (timeline_text(TIMELINE).replace("timeline", "plan"), "not a timeline file"),
        (trace_text(TIMELINE), "not a timeline file"),
        (edited("batch", "0"), 'timeline.events[0].batch must be int, not "0"'),
        (edited("surprise", 1), "timeline.events[0] has an unknown entry 'surprise'"),
        (edited("end_us", float("inf")), "Infinity is not a number"),
        (edited("end_us", 0), "ends before it starts; make it again"),
        (edited("part", 2), "is outside parts 0..1; make it again"),
    ],
)
def test_what_is_wrong_is_said(text, message):
    with pytest.raises(FileError) as caught:
        parse_timeline(text, "t.json")
    assert str(caught.value).startswith("t.json: ")
    assert message in str(caught.value)
