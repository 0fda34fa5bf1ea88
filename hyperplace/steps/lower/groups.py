"""Grouped layers whose part owns only some filters: as few grouped calls as the filters per group allow."""

from collections.abc import Callable
from itertools import groupby

from hyperplace.steps.lower.calls import argument_names, arguments, call_text, op_name
from hyperplace.steps.lower.pieces import Pieces
from hyperplace.steps.lower.text import joined
from hyperplace.values.channels import kernel_axes
from hyperplace.values.graph import Call, Layer, Ref
from hyperplace.values.plan import Ranges
from hyperplace.values.ranges import common, count, merged


def grouped_convolution(layer: Layer, call: Call, filters: Ranges, x: str, pieces: Pieces) -> str:
    """Return a convolution of the touched groups; neighbouring groups with equally many filters share a call."""
    grouping, axes = layer.groups_of(layer.operands[0]), kernel_axes(op_name(call))
    channels, touched = grouping.channels, _touched(layer, filters)
    # Where filters are not on the first axis of the kernel, they are counted within their group: one call for each.
    is_alone = axes.filters != 0
    texts, first = [], 0
    for _, run in groupby(touched, key=lambda item: (count(item[1]), item[0] if is_alone else 0)):
        groups = list(run)
        mine = tuple(span for _, spans in groups for span in spans)
        own = f"{x}[:, {first * channels}:{(first + len(groups)) * channels}]" if len(groups) < len(touched) else x
        weight = arguments(call)["weight"].name
        own_channels = ((groups[0][0] * channels, (groups[0][0] + 1) * channels),)
        cuts = axes.cuts(mine, own_channels, grouping) if is_alone else {0: merged(mine)}
        changed = {argument_names(call)[0]: own, "weight": pieces.text(layer, weight, cuts), "groups": str(len(groups))}
        bias = arguments(call).get("bias")
        if isinstance(bias, Ref):
            changed["bias"] = pieces.text(layer, bias.name, {0: merged(mine)})
        texts.append(call_text(call.op, call, lambda ref: ref.name, changed))
        first += len(groups)
    return joined(texts)


def grouped_norm(
    layer: Layer, call: Call, filters: Ranges, x: str, pieces: Pieces, *, assign: Callable[[str], str]
) -> str:
    """Return the norm of all touched groups, of which the part keeps its own filters, scaled by its own weights.

    `assign` gives an expression a variable and returns its name.
    """
    per = layer.num_filters // layer.groups
    touched = _touched(layer, filters)
    named = arguments(call)
    changed = {argument_names(call)[0]: x, "num_groups": str(len(touched))}
    changed |= {name: "None" for name in ("weight", "bias") if name in named}
    texts = []
    for position, (group, spans) in enumerate(touched):
        for start, stop in spans:
            texts.append((position * per + start - group * per, position * per + stop - group * per))
    text = assign(call_text(call.op, call, lambda ref: ref.name, changed))
    kept = merged(tuple(texts))
    if kept != ((0, len(touched) * per),):
        text = joined([f"{text}[:, {start}:{stop}]" for start, stop in kept])
    ones = ", 1" * (len(call.shape) - 2)
    for name, sign in (("weight", "*"), ("bias", "+")):
        if isinstance(named.get(name), Ref):
            piece = pieces.text(layer, named[name].name, {0: filters})
            text = f"{text} {sign} {piece}.reshape(-1{ones})"
    return text


def _touched(layer: Layer, filters: Ranges) -> list[tuple[int, Ranges]]:
    """Return every group of which there are filters, with those."""
    per = layer.num_filters // layer.groups
    found = [(group, common(((group * per, (group + 1) * per),), filters)) for group in range(layer.groups)]
    return [(group, spans) for group, spans in found if spans]
