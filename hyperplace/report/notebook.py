"""Values as a notebook shows them: a small picture and their tables. No script, and all text escaped.

Pictures are drawn with the colours of the text around them, so that they can be read on light and on dark.
"""

from collections.abc import Iterator
from functools import singledispatch
from html import escape
from typing import Any

from hyperplace.report.comparison import comparison_document
from hyperplace.report.document import Column, Section, Table, Text
from hyperplace.report.layermap import part_list
from hyperplace.report.maplines import MapLine, map_lines
from hyperplace.report.page.markup import document_markup, section_markup
from hyperplace.report.palette import part_color, text_color
from hyperplace.report.plan import parts_section
from hyperplace.report.planfigure import plan_title
from hyperplace.report.timeline import COLORS, middle_of, span_line, timeline_table
from hyperplace.values.cluster import Cluster, shown_rate
from hyperplace.values.comparison import Comparison
from hyperplace.values.plan import Plan
from hyperplace.values.sizes import MIB
from hyperplace.values.timeline import WAIT, Timeline

MOST_LINES = 60  # of a plan's picture
MOST_BARS = 1500  # of a timeline's
WIDTH, LABEL, LINE = 640, 190, 18


@singledispatch
def html_of(value: Any) -> str | None:
    """Return a value as HTML, or nothing where it has no picture: then its one line is shown."""
    return None


@html_of.register
def _plan(plan: Plan) -> str:
    lines = map_lines(plan)
    rows = [mark for place, line in enumerate(lines[:MOST_LINES]) for mark in _layer(line, place, plan.settings.k)]
    left = f"<p>and {len(lines) - MOST_LINES} lines more</p>" if len(lines) > MOST_LINES else ""
    picture = _picture(rows, len(lines[:MOST_LINES]) * LINE, plan_title(plan))
    return f"<p><b>{escape(plan_title(plan))}</b></p>{picture}{left}{section_markup(parts_section(plan))}"


def _layer(line: MapLine, place: int, num_parts: int) -> Iterator[str]:
    """Yield the name of a layer, or of several, and a bar of its owners; rows rather than filters are paler."""
    yield _words(line.first if line.num_layers == 1 else f"{line.first} .. {line.last}", 0, place)
    total, x = sum(run.size for run in line.owners), float(LABEL)
    for run in line.owners:
        width = (WIDTH - LABEL) * run.size / total
        color, by = part_color(run.part, num_parts), f", {line.split}" if line.split else ""
        paler = ' fill-opacity="0.65"' if line.split == "by rows" else ""
        yield (
            f'<rect x="{x:.1f}" y="{place * LINE + 2}" width="{width:.1f}" height="{LINE - 4}" fill="{color}"{paler}>'
            f"<title>part {run.part}{by}</title></rect>"
        )
        if width > 16:
            yield (
                f'<text x="{x + width / 2:.1f}" y="{place * LINE + 13}" text-anchor="middle" font-size="11" '
                f'fill="{text_color(color)}">{run.part}</text>'
            )
        x += width


def _words(text: str, x: int, place: int) -> str:
    short = text if len(text) <= 28 else f"{text[:13]}…{text[-14:]}"
    return f'<text x="{x}" y="{place * LINE + 13}" font-size="12" fill="currentColor">{escape(short)}</text>'


def _picture(marks: list[str], height: int, name: str) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        f'role="img" aria-label="{escape(name)}">{"".join(marks)}</svg>'
    )


@html_of.register
def _timeline(timeline: Timeline) -> str:
    shown = middle_of(timeline)
    span = max(shown.span_us, 1e-9)
    marks = [_words(f"part {part}", 0, part) for part in range(shown.num_parts)]
    left = 64
    for event in [event for event in shown.events if event.kind != WAIT][:MOST_BARS]:
        x = left + (WIDTH - left) * (event.start_us - shown.start_us) / span
        width = max(0.3, (WIDTH - left) * (event.end_us - event.start_us) / span)
        pale = ' fill-opacity="0.6"' if event.batch % 2 else ""
        marks.append(
            f'<rect x="{x:.1f}" y="{event.part * LINE + 2}" width="{width:.1f}" height="{LINE - 4}" '
            f'fill="{COLORS[event.kind]}"{pale}/>'
        )
    picture = _picture(marks, shown.num_parts * LINE, span_line(timeline))
    return picture + section_markup(Section((Text(span_line(timeline)), timeline_table(timeline))))


@html_of.register
def _comparison(comparison: Comparison) -> str:
    return document_markup(comparison_document(comparison).without_figures())


@html_of.register
def _cluster(cluster: Cluster) -> str:
    first = [sum(len(host.devices) for host in cluster.hosts[:number]) for number in range(len(cluster.hosts))]
    rates = [[_rate(host.out_rate), _rate(host.in_rate)] for host in cluster.hosts]
    table = Table(
        (
            Column.words("host", [host.name for host in cluster.hosts]),
            Column.words(
                "parts", [part_list(range(n, n + len(h.devices))) for n, h in zip(first, cluster.hosts, strict=True)]
            ),
            Column.words("devices", [", ".join(sorted({d.kind for d in host.devices})) for host in cluster.hosts]),
            Column.words("speed", [_each([f"{d.speed:g}" for d in host.devices]) for host in cluster.hosts]),
            Column.words("memory", [_each([_memory(d.memory_bytes) for d in h.devices]) for h in cluster.hosts]),
            Column.words("out", [out for out, _ in rates]),
            Column.words("in", [into for _, into in rates]),
            Column.numbers("latency", [1e3 * host.latency_s for host in cluster.hosts], "ms", form=",.3g"),
        )
    )
    return section_markup(Section((Text(str(cluster)), table)))


def _rate(rate: float) -> str:
    return "no limit" if rate == float("inf") else shown_rate(rate)


def _memory(num_bytes: int | None) -> str:
    return "no limit" if num_bytes is None else f"{num_bytes / MIB:,.0f} MiB"


def _each(words: list[str]) -> str:
    """Return what all devices of a host have, or what each has."""
    return words[0] if len(set(words)) == 1 else ", ".join(words)
