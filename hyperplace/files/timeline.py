"""Timelines as files: timeline.json to keep and read back, and a Chrome trace to look at in Perfetto."""

import json
from typing import Any

from hyperplace.files.records import parse_record, record_text
from hyperplace.values.timeline import Event, Timeline

VERSION = 1
PROCESS = 1


def timeline_text(timeline: Timeline) -> str:
    """Return the timeline as JSON."""
    return record_text(timeline, "timeline", VERSION)


def parse_timeline(text: str, name: str) -> Timeline:
    """Return the timeline a text holds; a bad, old or hand-broken one gives a FileError that says where."""
    return parse_record(text, name, Timeline, "timeline", VERSION)


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
