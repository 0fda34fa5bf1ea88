"""Timelines as files: timeline.json to keep and read back, and a Chrome trace to look at in Perfetto."""

import json
from pathlib import Path
from typing import Any

from hyperplace.errors import FileError, HyperplaceError
from hyperplace.files.records import parse_record, record_text
from hyperplace.files.write import read_text
from hyperplace.values.timeline import Event, Timeline

VERSION = 1
TRACE_MARK = '"traceEvents"'
PROCESS = 1


def timeline_text(timeline: Timeline) -> str:
    """Return the timeline as JSON."""
    return record_text(timeline, "timeline", VERSION)


def parse_timeline(text: str, name: str) -> Timeline:
    """Return the timeline a text holds; a bad, old or hand-broken one gives a FileError that says where."""
    return parse_record(text, name, Timeline, "timeline", VERSION)


def read_timeline(path: str | Path) -> Timeline:
    """Return the timeline of a file of either kind."""
    text = read_text(path)
    return parse_trace(text, str(path)) if TRACE_MARK in text[:1000] else parse_timeline(text, str(path))


def parse_trace(text: str, name: str) -> Timeline:
    """Return the timeline of a Chrome trace that `trace_text` made; other events than its own are refused."""
    try:
        lines = json.loads(text)["traceEvents"]
        events = [_event(line) for line in lines if line["ph"] == "X"]
        parts = {line["tid"] for line in lines}
        return Timeline(1 + max(parts, default=0), tuple(events))
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError, HyperplaceError) as fault:
        raise FileError(f"{name} is no trace of hyperplace: {type(fault).__name__}: {fault}") from None


def _event(line: dict[str, Any]) -> Event:
    start, length = float(line["ts"]), float(line["dur"])
    segment, batch, part = line["args"]["segment"], line["args"]["batch"], line["tid"]
    if not (isinstance(segment, str) and isinstance(batch, int) and isinstance(part, int)):
        raise TypeError(f"an event has the segment {segment!r}, mini-batch {batch!r} and part {part!r}")
    return Event(part, str(line["cat"]), segment, batch, start, start + length)


def trace_text(timeline: Timeline) -> str:
    """Return the timeline as a Chrome trace: a thread per part, time from 0; open it at ui.perfetto.dev."""
    name = "hyperplace, predicted" if timeline.is_predicted else "hyperplace"
    heads = [_metadata("process_name", 0, name=name)]
    for part in range(timeline.num_parts):
        heads += [
            _metadata("thread_name", part, name=f"part {part}"),
            _metadata("thread_sort_index", part, sort_index=part),
        ]
    events = sorted(timeline.events, key=lambda event: (event.start_us, event.end_us, event.part))
    lines = [*heads, *(_complete(event, timeline.start_us) for event in events)]
    # A line per event: such a file can be searched and compared.
    body = ",\n".join(json.dumps(line, allow_nan=False) for line in lines)
    return f'{{"displayTimeUnit": "ms", "traceEvents": [\n{body}\n]}}\n'


def _metadata(kind: str, part: int, **args: Any) -> dict[str, Any]:
    return {"ph": "M", "name": kind, "pid": PROCESS, "tid": part, "args": args}


def _complete(event: Event, origin_us: float) -> dict[str, Any]:
    """Return an `X` event; both ends are rounded to the nanosecond, so that events that touch still do."""
    start, end = (round(1e3 * (time - origin_us)) for time in (event.start_us, event.end_us))
    return {
        "ph": "X",
        "name": f"{event.kind} {event.name}",
        "cat": event.kind,
        "pid": PROCESS,
        "tid": event.part,
        "ts": start / 1e3,
        "dur": (end - start) / 1e3,
        "args": {"segment": event.name, "batch": event.batch},
    }
