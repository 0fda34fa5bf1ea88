"""The page of a plan: Plan (+ Outlook, Timeline, another Plan) -> one HTML file to look at and to try things on."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hyperplace.report.document import Document, Section, Text
from hyperplace.report.page.against import against_section, renumbered
from hyperplace.report.page.markup import block_markup, document_markup, section_markup
from hyperplace.report.page.network import network
from hyperplace.report.page.parts import parts_section
from hyperplace.report.page.shell import page
from hyperplace.report.page.widgets import network_markup, timelines_markup, what_if_markup
from hyperplace.report.palette import part_color, text_color
from hyperplace.report.plan import parts_section as plain_parts_section
from hyperplace.report.planfigure import plan_title
from hyperplace.report.timeline import COLORS, middle_of
from hyperplace.values.bench import SYNC
from hyperplace.values.forecast import Outlook
from hyperplace.values.pace import Pace
from hyperplace.values.plan import Plan, PlannedLayer
from hyperplace.values.sync_pace import SyncPace
from hyperplace.values.timeline import Timeline

KINDS = tuple(COLORS)


@dataclass(frozen=True)
class Subject:
    """A plan, and what is known of its time on a cluster."""

    plan: Plan
    outlook: Outlook | None = None


def document_page(document: Document, title: str, command: str) -> str:
    """Return any document as a page, with the command that made it."""
    return page(title, block_markup(Text(command, "note")) + document_markup(document))


def plan_page(
    subject: Subject,
    *,
    measured: Timeline | None = None,
    against: Subject | None = None,
    remarks: Sequence[str] = (),
    document: Document | None = None,
) -> str:
    """Return the page of a plan; `remarks` are what whoever makes it has to say, and a document tells of its parts."""
    plan, outlook = subject.plan, subject.outlook
    others = renumbered(plan, against.plan) if against else ()
    timelines = {"measured": measured, "predicted": outlook.forecast.prediction.timeline if outlook else None}
    shown = {name: middle_of(one) for name, one in timelines.items() if one is not None}
    num_parts = max(plan.settings.k, against.plan.settings.k if against else 0)
    pieces = [*(block_markup(Text(text, "note")) for text in remarks), network_markup(num_parts, bool(against))]
    pieces.append(document_markup(document.without_figures()) if document else section_markup(_parts(subject)))
    if outlook:
        pieces.append(what_if_markup(outlook))
    if shown:
        pieces.append(timelines_markup({name: (timelines[name] or one, one) for name, one in shown.items()}))
    if against:
        both = (outlook.forecast, against.outlook.forecast) if outlook and against.outlook else None
        pieces.append(section_markup(against_section(plan, against.plan, both, others)))
    return page(plan_title(plan), "".join(pieces), _data(subject, num_parts, shown, others))


def _parts(subject: Subject) -> Section:
    return parts_section(subject.plan, subject.outlook) if subject.outlook else plain_parts_section(subject.plan)


def _data(
    subject: Subject, num_parts: int, shown: dict[str, Timeline], others: Sequence[PlannedLayer]
) -> dict[str, Any]:
    """Return what the script draws."""
    outlook = subject.outlook
    colors = [part_color(part, num_parts) for part in range(num_parts)]
    return {
        "colors": colors,
        "inks": [text_color(color) for color in colors],
        "batch": subject.plan.settings.batch,
        "network": network(subject.plan, outlook.cluster if outlook else None, others),
        "piece": "micro-batch" if outlook and outlook.forecast.schedule == SYNC else "mini-batch",
        "pace": pace_data(outlook.pace) if outlook else None,
        "kinds": [{"name": kind, "color": COLORS[kind]} for kind in KINDS],
        "timelines": [timeline_data(name, one) for name, one in shown.items()],
    }


def pace_data(pace: Pace | SyncPace) -> dict[str, Any]:
    """Return a pace as JSON has it."""
    return vars(pace) | {"routes": [vars(route) for route in pace.routes], "cards": [vars(card) for card in pace.cards]}


def timeline_data(title: str, timeline: Timeline) -> dict[str, Any]:
    """Return a timeline from 0, with every name once; times are microseconds to the tenth."""
    number: dict[str, int] = {}
    events = []
    for event in timeline.events:
        # Both ends are rounded, so that events that touch still do.
        start, end = (round(time - timeline.start_us, 1) for time in (event.start_us, event.end_us))
        name = number.setdefault(event.name, len(number))
        events.append([event.part, KINDS.index(event.kind), name, event.batch, start, round(end - start, 1)])
    return {
        "title": title,
        "parts": timeline.num_parts,
        "span": timeline.span_us,
        "names": list(number),
        "events": events,
    }
