"""What every part did with its time: a table, and a figure with a row per part and a bar per event.

Bars are coloured by kind and shaded by mini-batch. Of a long timeline the middle is drawn, where the pipeline is full:
as much as a few mini-batches take. The title says so.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np

from hyperplace.report.document import Column, Document, Figure, Section, Table, Text
from hyperplace.report.palette import lightened, text_color
from hyperplace.report.titles import set_title
from hyperplace.values.timeline import KINDS, WAIT, Event, Timeline

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Picture

# Okabe and Ito's colours, which colour-blind readers can tell apart.
COLORS = {"forward": "#0072b2", "recompute": "#56b4e9", "backward": "#e69f00", "update": "#009e73", "loss": "#cc79a7"}
COLORS |= {WAIT: "#eeeeee"}
ODD_SHADE = 0.42  # odd mini-batches are this much lighter
GREY = "#555555"
MOST_BATCHES, SHOWN_BATCHES = 12, 8
MOST_EVENTS = 4000
MOST_ROWS_WITH_NUMBERS = 24
WIDTH_INCHES = 13
DIGIT_SHARE = 0.008  # of the span: the room a digit needs at this width


def timeline_document(timeline: Timeline) -> Document:
    """Return the table, a line on the whole span, and the figure."""
    return Document((), (timeline_section(timeline),), timeline_table(timeline))


def timeline_section(timeline: Timeline, title: str = "") -> Section:
    """Return the same as a section of another document."""
    figure = Figure(
        name="timeline",
        caption="A row per part, a bar per event; hatched: waiting for a message.",
        alt=f"What each of {timeline.num_parts} parts did when: {span_line(timeline)}",
        draw=lambda: timeline_figure(timeline),
    )
    return Section((timeline_table(timeline), Text(span_line(timeline)), figure), title)


def timeline_table(timeline: Timeline) -> Table:
    """Return a row per part and one for all: its busy, waiting and idle time, and the share without work.

    The last row sums the times, has the bubble of all parts together, and counts every mini-batch once.
    """
    times = {"busy": timeline.busy_us, "waiting": timeline.waiting_us, "idle": timeline.idle_us}
    return Table(
        (
            Column.words("part", [*map(str, range(timeline.num_parts)), "all"]),
            *(
                Column.numbers(name, (np.append(us, us.sum()) / 1e3).tolist(), "ms", spare=int(name == "idle"))
                for name, us in times.items()
            ),
            Column.numbers("bubble", (100 * np.append(timeline.bubble, timeline.bubble.mean())).tolist(), "%"),
            Column.numbers("mini-batches", [*timeline.batches_per_part.tolist(), len(timeline.batches)]),
        )
    )


def span_line(timeline: Timeline) -> str:
    """Say in a sentence how long it took and how many parts were busy at a time."""
    made = "predicted" if timeline.is_predicted else "measured"
    at_a_time = timeline.busy_us.sum() / timeline.span_us if timeline.span_us else 0.0
    return (
        f"{timeline.span_us / 1e3:,.1f} ms {made}; on average {at_a_time:.2f} of {timeline.num_parts} parts were busy"
    )


@dataclass(frozen=True)
class _Run:
    """Neighbouring events of one part, kind and mini-batch: they get one number."""

    batch: int
    kind: str
    start_us: float
    end_us: float


def timeline_figure(timeline: Timeline) -> "Picture":
    """Return the figure, without touching any global state of matplotlib."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as Picture

    shown = middle_of(timeline)
    height = min(max(2.9, 1.7 + 0.5 * timeline.num_parts), 24)
    figure = Picture(figsize=(WIDTH_INCHES, height), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    for part in range(timeline.num_parts):
        _draw_part(axes, shown, part, timeline.start_us)
    _finish(axes, shown, timeline.start_us)
    _draw_legend(figure, shown)
    set_title(figure, _title(timeline, shown))
    return figure


def middle_of(timeline: Timeline) -> Timeline:
    """Return what is drawn: all of it, or as much from the middle as a few mini-batches take."""
    num_batches, num_events = len(timeline.batches), len(timeline.events)
    if num_batches <= MOST_BATCHES and num_events <= MOST_EVENTS:
        return timeline
    share = min(SHOWN_BATCHES / max(num_batches, 1), MOST_EVENTS / num_events)
    middle = (timeline.start_us + timeline.end_us) / 2
    return timeline.cut(middle - share / 2 * timeline.span_us, middle + share / 2 * timeline.span_us)


def _title(timeline: Timeline, shown: Timeline) -> str:
    made = "predicted" if timeline.is_predicted else "measured"
    num_batches = len(timeline.batches)
    if shown is timeline:
        what = f"{num_batches} mini-batches"
    else:
        what = (
            f"the middle {shown.span_us / 1e3:,.1f} of {timeline.span_us / 1e3:,.1f} ms ({num_batches:,} mini-batches)"
        )
    return f"{timeline.num_parts} parts, {made}, {what}: bubble {100 * float(shown.bubble.mean()):.1f}%"


def _draw_part(axes: "Axes", shown: Timeline, part: int, origin_us: float) -> None:
    own = sorted((event for event in shown.events if event.part == part), key=lambda event: event.start_us)
    for color, events in _by_color(own).items():
        spans = [((event.start_us - origin_us) / 1e3, (event.end_us - event.start_us) / 1e3) for event in events]
        if events[0].kind == WAIT:
            axes.broken_barh(spans, (part - 0.4, 0.8), facecolor=color, edgecolor="#bbbbbb", hatch="////", linewidth=0)
        else:
            axes.broken_barh(spans, (part - 0.4, 0.8), facecolor=color, edgecolor="none")
    if shown.num_parts <= MOST_ROWS_WITH_NUMBERS:
        for run in _runs(own):
            _write_number(axes, run, part, shown, origin_us)


def _by_color(events: Iterable[Event]) -> dict[str, list[Event]]:
    events_of: dict[str, list[Event]] = {}
    for event in events:
        events_of.setdefault(_color(event.kind, event.batch), []).append(event)
    return events_of


def _color(kind: str, batch: int) -> str:
    return lightened(COLORS[kind], ODD_SHADE) if batch % 2 and kind != WAIT else COLORS[kind]


def _runs(events: list[Event]) -> Iterator[_Run]:
    for (kind, batch), group in groupby(events, key=lambda event: (event.kind, event.batch)):
        members = list(group)
        yield _Run(batch, kind, members[0].start_us, members[-1].end_us)


def _write_number(axes: "Axes", run: _Run, part: int, shown: Timeline, origin_us: float) -> None:
    """Write the mini-batch into the run where it fits."""
    text = str(run.batch)
    if run.kind == WAIT or run.end_us - run.start_us < (len(text) + 0.5) * DIGIT_SHARE * shown.span_us:
        return
    middle = ((run.start_us + run.end_us) / 2 - origin_us) / 1e3
    color = text_color(_color(run.kind, run.batch))
    axes.text(middle, part, text, ha="center", va="center_baseline", fontsize=9, color=color, clip_on=True)


def _finish(axes: "Axes", shown: Timeline, origin_us: float) -> None:
    parts = range(0, shown.num_parts, -(-shown.num_parts // 64))
    axes.set_yticks(parts, [f"part {part}" for part in parts], fontsize=9)
    right = axes.secondary_yaxis("right")
    right.set_yticks(parts, [f"bubble {100 * shown.bubble[part]:.0f}%" for part in parts], fontsize=9)
    for side in (axes, right):
        side.tick_params(axis="y", length=0, labelcolor=GREY)
        side.spines[:].set_visible(False)
    start, end = (shown.start_us - origin_us) / 1e3, (shown.end_us - origin_us) / 1e3
    axes.set(xlim=(start, end if end > start else start + 1), ylim=(shown.num_parts - 0.45, -0.55))
    axes.spines["bottom"].set_visible(True)
    axes.set_xlabel("ms")
    axes.grid(axis="x", color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)


def _draw_legend(figure: "Picture", shown: Timeline) -> None:
    from matplotlib.patches import Patch

    kinds = {event.kind for event in shown.events}
    handles = [Patch(color=COLORS[kind], label=kind) for kind in KINDS if kind in kinds and kind != WAIT]
    if WAIT in kinds:
        handles.append(Patch(facecolor=COLORS[WAIT], edgecolor="#bbbbbb", hatch="////", label="wait for a message"))
    handles.append(Patch(facecolor="white", edgecolor="#bbbbbb", label="idle"))
    handles.append(Patch(color="none", label="number: mini-batch; odd ones are lighter"))
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), frameon=False, fontsize=9)
