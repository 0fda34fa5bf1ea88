"""What a page's script fills: the network, the sliders and the timelines, with their buttons and words.

Each says in words what it shows, for whoever does not see it or has no script.
"""

from collections.abc import Mapping
from html import escape

from hyperplace.report.timeline import COLORS, span_line
from hyperplace.values.forecast import Forecast, Outlook
from hyperplace.values.sync_pace import SyncPace
from hyperplace.values.timeline import WAIT, Timeline

MOST_IN_FLIGHT = 32
NETWORK_HELP = (
    "Every layer is a bar, coloured by the part that owns its filters or, hatched, its rows of the batch; where both "
    "are cut, filters go from left to right and rows from top to bottom. Lines are as wide as the bytes that cross "
    "between parts. Click a block to fold or unfold it, a layer to follow its tensors forward and back; with the "
    "keyboard: arrows, Enter, Escape."
)

ASYNC_HELP = (
    "The least a mini-batch can take: the slowest part, the fullest card, or the longest loop of work and messages "
    "over the mini-batches in flight. Queues come on top:"
)
SYNC_HELP = (
    "The least a mini-batch can take with the sync schedule: the slowest part, the fullest card, or the longest chain "
    "of work and messages from a part's first micro-batch to its update, or to its new weights. A batch norm sees one "
    "micro-batch at a time, so several change what it learns. Queues come on top:"
)


def network_markup(num_parts: int, is_against: bool) -> str:
    """Return the place of the network, its buttons and its legend."""
    swatches = "".join(
        f'<li><span class="swatch" data-part-color="{part}"></span>part {part}</li>' for part in range(num_parts)
    )
    also = " The lower bar of a layer is where the other plan has it." if is_against else ""
    acts = {"unfold": "Unfold all", "fold": "Fold all", "clear": "Follow nothing", "svg": "SVG"}
    return (
        f'<section id="network"><h2>Network</h2><p class="note">{NETWORK_HELP}{also}</p>'
        f'{_buttons(acts)}<ul class="legend">{swatches}</ul><div class="canvas needs-script">'
        '<div class="scroll" tabindex="0" role="group" aria-label="the network">'
        '<svg role="group" aria-label="layers and what flows between them"></svg></div>'
        '<div class="detail" role="status" aria-label="about a layer">'
        "<p>Point at a layer, or go to one with the keyboard.</p></div></div>"
        "<noscript><p>The network is drawn by this page's own script, which is switched off.</p></noscript></section>\n"
    )


def what_if_markup(outlook: Outlook) -> str:
    """Return the sliders, at what the cluster is."""
    forecast = outlook.forecast
    is_sync = isinstance(outlook.pace, SyncPace)
    sliders = (
        _slider("bandwidth", "Bandwidth of all cards", -6, 6, 0, "0.01")
        + _slider("latency", "Latency, added", 0, 20, 0, "0.01")
        + _slider("speed", "Speed of all devices", -4, 4, 0, "0.01")
        + (_pieces_slider(forecast) if is_sync else _depth_slider(forecast.in_flight))
    )
    words = (
        f"{SYNC_HELP} the simulation of the cluster as it is, {outlook.cluster}, takes {1e3 * forecast.seconds:,.4g} "
        f"ms in {forecast.micro_batches} micro-batch{'es' * (forecast.micro_batches > 1)}."
        if is_sync
        else f"{ASYNC_HELP} the simulation of the cluster as it is, {outlook.cluster}, takes "
        f"{1e3 * forecast.seconds:,.4g} ms with {forecast.in_flight} in flight."
    )
    return (
        f'<section id="what-if"><h2>What if</h2><p class="note">{escape(words)}</p>'
        f'<div class="needs-script"><div class="sliders">{sliders}</div>{_buttons({"reset": "As it is"})}'
        '<p class="told" role="status"></p>'
        '<svg role="img" aria-label="what every part, card and loop alone would let a mini-batch take"></svg></div>'
        "</section>\n"
    )


def _depth_slider(in_flight: int) -> str:
    return _slider("in_flight", "Mini-batches in flight", 1, max(MOST_IN_FLIGHT, in_flight), in_flight, "1")


def _pieces_slider(forecast: Forecast) -> str:
    most = max(1, min(MOST_IN_FLIGHT, forecast.plan.settings.batch), forecast.micro_batches)
    return _slider("micro_batches", "Micro-batches", 1, most, forecast.micro_batches, "1")


def _slider(name: str, label: str, low: int, high: int, value: int, step: str) -> str:
    return (
        f'<label for="slide-{name}">{label}</label>'
        f'<input type="range" id="slide-{name}" name="{name}" min="{low}" max="{high}" step="{step}" value="{value}">'
        f'<output for="slide-{name}"></output>'
    )


def timelines_markup(timelines: Mapping[str, tuple[Timeline, Timeline]]) -> str:
    """Return the places of timelines, given as a whole and as far as they are drawn, one above the other."""
    acts = {"in": "Zoom in", "out": "Zoom out", "left": "Earlier", "right": "Later", "all": "All"}
    colors = "".join(
        f'<li><svg class="swatch" viewBox="0 0 1 1" aria-hidden="true">'
        f'<rect width="1" height="1" fill="{color}"/></svg>{kind}</li>'
        for kind, color in COLORS.items()
        if kind != WAIT
    )
    places = "".join(_timeline(place, name, *both) for place, (name, both) in enumerate(timelines.items()))
    return (
        '<section id="timelines"><h2>Timelines</h2><p class="note">A row per part, a bar per event; odd mini-batches '
        "are lighter, dashed is waiting for a message. Click an event to follow its mini-batch; with the keyboard: "
        f'plus, minus, arrows, 0; with the mouse: control and wheel.</p><div class="needs-script">{_buttons(acts)}'
        '<label>Follow <select><option value="">no mini-batch</option></select></label>'
        f'<ul class="legend">{colors}</ul>{places}<p class="said" role="status">Point at an event.</p></div>'
        "</section>\n"
    )


def _timeline(place: int, name: str, whole: Timeline, shown: Timeline) -> str:
    middle = "" if shown is whole else f"; drawn is the middle, {shown.span_us / 1e3:,.1f} ms"
    return (
        f'<h3>{name.capitalize()}</h3><p class="note">{span_line(whole)}{middle}</p>'
        f'<div class="timeline"><svg class="events" tabindex="0" role="group" aria-label="{name} timeline: '
        f'{span_line(whole)}"></svg></div>{_buttons({}, {place: f"Chrome trace, {name}"})}'
    )


def _buttons(acts: Mapping[str, str], traces: Mapping[int, str] | None = None) -> str:
    made = [f'<button type="button" data-act="{act}">{words}</button>' for act, words in acts.items()]
    made += [f'<button type="button" data-trace="{n}">{words}</button>' for n, words in (traces or {}).items()]
    return f'<div class="tools needs-script">{"".join(made)}</div>'
