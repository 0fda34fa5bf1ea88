"""Why a layer is where it is, as a document: its pieces, what it moves and beside whom, and the other places."""

from hyperplace.report.document import Column, Document, Section, Table, Text, notes
from hyperplace.values.explanation import Explanation
from hyperplace.values.plan import Owner
from hyperplace.values.ranges import count
from hyperplace.values.sizes import byte_scale, size

MANY = 6  # layers named of one part


def explanation_document(found: Explanation) -> Document:
    """Return what is known of the layer in its place, then every other place with its cost."""
    table = places_table(found)
    lines = [*_moved_lines(found), *_beside_lines(found)]
    return Document(
        (Text(_headline(found), "fact"), Text(_verdict(found))),
        (Section((shards_table(found), *map(Text, lines))), Section((table, *notes(_notes(found))), "other places")),
        table,
    )


def shards_table(found: Explanation) -> Table:
    """Return a row per piece of the layer."""
    layer = found.layer
    cells = [_cells(owner) for owner in layer.owners]
    return Table(
        (
            Column.numbers("part", [owner.part for owner in layer.owners]),
            Column.numbers("filters", [count(owner.filters) for owner in layer.owners]),
            Column.words("rows", [f"{start}:{stop}" for start, stop in (owner.rows for owner in layer.owners)]),
            Column.numbers("of the layer", [100 * one / sum(cells) for one in cells], "%"),
        )
    )


def places_table(found: Explanation) -> Table:
    """Return the place it has and all others: what the whole plan moves and takes there, against now."""
    places, here = (found.here, *found.others), found.here
    moved = [place.plan.metrics.training_volume_bytes for place in places]
    scale = byte_scale(moved)
    return Table(
        (
            Column.words("place", [place.name for place in places]),
            Column.numbers("training", map(scale.of, moved), scale.name),
            Column.numbers("more", [scale.of(one - moved[0]) for one in moved], scale.name, form="+,.1f"),
            Column.numbers("max/avg", [place.plan.metrics.max_over_avg for place in places], form=",.3f"),
            *(
                (
                    Column.numbers("mini-batch", [1e3 * (place.seconds or 0.0) for place in places], "ms", form=",.2f"),
                    Column.numbers(
                        "slower", [_slower(place.seconds, here.seconds) for place in places], "%", form="+,.1f"
                    ),
                )
                if here.seconds is not None
                else ()
            ),
            Column.words("breaks", ["; ".join(place.breaks) for place in places]),
        )
    )


def _slower(seconds: float | None, now: float | None) -> float | None:
    return 100 * (seconds / now - 1) if seconds and now else None


def _cells(owner: Owner) -> int:
    return count(owner.filters) * (owner.rows[1] - owner.rows[0])


def _headline(found: Explanation) -> str:
    layer, settings = found.layer, found.plan.settings
    parts = ", ".join(map(str, sorted(layer.parts)))
    where = f"part {parts}" if len(layer.parts) == 1 else f"parts {parts}"
    return f"{layer.name} of {settings.model}: {layer.kind}, {layer.num_filters} filters, on {where} of {settings.k}"


def _verdict(found: Explanation) -> str:
    """Say in a sentence why it is there."""
    pins = found.plan.settings.pins
    if reasons := [name for name in (found.layer.name, *found.tied) if name in pins.layers]:
        return (
            f"it is there by its pins: {pins}"
            if found.layer.name in reasons
            else f"it is tied to {reasons[0]}, which is pinned: {pins}"
        )
    allowed = [place for place in found.others if not place.breaks]
    if not found.others:
        return "there is no other place"
    if not allowed:
        return f"no other single part may have all of it: {found.others[0].name} breaks {found.others[0].breaks[0]}"
    best = allowed[0]
    if best.seconds is not None and found.here.seconds is not None:
        more = 1e3 * (best.seconds - found.here.seconds)
        return (
            f"{best.name} is the next best place: {abs(more):,.2f} ms {'more' if more >= 0 else 'less'} per mini-batch"
        )
    change = best.plan.metrics.training_volume_bytes - found.here.plan.metrics.training_volume_bytes
    return f"{best.name} is the next best place: {size(abs(change))} {'more' if change >= 0 else 'less'} in training"


def _moved_lines(found: Explanation) -> list[str]:
    amounts = {
        "received of what it reads": found.received_bytes,
        "sent of its output": found.sent_bytes,
        "of partial sums": found.partial_bytes,
        "for copies of its weights and statistics in training": found.copy_bytes,
    }
    moved = [f"{size(amount)} {what}" for what, amount in amounts.items() if amount]
    return [f"per mini-batch: {', '.join(moved)}" if moved else "it moves nothing between parts"]


def _beside_lines(found: Explanation) -> list[str]:
    lines = []
    for part, layers in found.beside:
        more = f" and {len(layers) - MANY} more" if len(layers) > MANY else ""
        lines.append(f"on part {part} with {', '.join(layers[:MANY]) or 'nothing else'}{more}")
    return lines


def _notes(found: Explanation) -> list[str]:
    lines = ["training: what all layers move in an iteration; max/avg: the heaviest part's work over the average"]
    if found.tied:
        lines.append(f"with it move the layers tied to it: {', '.join(found.tied)}")
    return lines
