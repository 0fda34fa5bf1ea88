"""The map of a plan in the terminal: a line per layer, a bar of its filters by part, and the bytes that leave it.

Every character of a bar names a part, so the map says the same in a log file without colour.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import TYPE_CHECKING

from hyperplace.report.maplines import MapLine, Run, map_lines
from hyperplace.report.palette import CHARACTERS, character_key, part_character, part_color, text_color
from hyperplace.values.plan import Plan
from hyperplace.values.sizes import ByteScale, byte_scale, size

if TYPE_CHECKING:
    from rich.text import Text

NARROWEST_BAR = 16
FIGURE_WIDTH = 11
MOST_STARS = 5
STAR_STYLES = {5: "bold red", 4: "bold red", 3: "red", 2: "yellow", 1: "yellow", 0: ""}


@dataclass(frozen=True)
class _Layout:
    """The columns' widths, and what the longest row of stars stands for."""

    name: int
    filters: int
    bar: int
    num_parts: int
    most_bytes: int
    scale: ByteScale


def layer_map(plan: Plan, width: int = 80) -> "Text":
    """Return the map, `width` characters wide; widths under 60 are drawn as 60."""
    from rich.text import Text

    lines = map_lines(plan)
    layout = _layout(lines, plan.settings.k, max(width, 60))
    rows = [_header(layout, f"{'moves' if plan.metrics.judges_training else 'leaves'} {layout.scale.name}")]
    for line in lines:
        rows += _rows(line, layout)
    rows += [Text(line) for line in _footer(plan, lines, max(width, 60))]
    for row in rows:
        row.rstrip()
    return Text("\n").join(rows)


def whole_layers(plan: Plan) -> list[str]:
    """Return a sentence per reason: which layers were not split, and why."""
    names_of: dict[str, list[str]] = {}
    for layer in plan.layers:
        if layer.rule == "whole":
            names_of.setdefault(layer.reason or "no channel rule", []).append(layer.name)
    return [f"placed whole: {', '.join(names)} ({reason})" for reason, names in names_of.items()]


def _layout(lines: Sequence[MapLine], num_parts: int, width: int) -> _Layout:
    filters = max(len("filters"), *(len(_filters(line)) for line in lines))
    rest = width - filters - FIGURE_WIDTH - MOST_STARS - 5
    name = min(max(len("  kernels"), *(len(_name(line)) for line in lines)), rest - NARROWEST_BAR)
    most_bytes = max(max(line.sent_bytes, line.partial_bytes) for line in lines)
    return _Layout(name, filters, rest - name, num_parts, most_bytes, byte_scale([most_bytes]))


def _name(line: MapLine, longest: int | None = None) -> str:
    if line.num_layers == 1:
        return _shortened(line.first, longest)
    half = None if longest is None else (longest - 4) // 2
    text = f"{line.first} .. {line.last}"
    fits = longest is None or len(text) <= longest
    return text if fits else f"{_shortened(line.first, half)} .. {_shortened(line.last, half)}"


def _shortened(name: str, longest: int | None) -> str:
    """Return the name with its middle left out; the end says more than the beginning."""
    if longest is None or len(name) <= longest:
        return name
    head = (longest - 2) // 3
    return name[:head] + ".." + name[len(name) - (longest - 2 - head) :]


def _filters(line: MapLine) -> str:
    filters = f"{line.num_filters:,}" if line.num_layers == 1 else f"{line.num_layers} layers"
    return f"{filters} {line.split:10}" if line.split else filters


def _header(layout: _Layout, figure: str) -> "Text":
    from rich.text import Text

    text = Text(f"{'layer':{layout.name}}  {'filters':>{layout.filters}}  ", style="bold")
    legend = "on part "
    if len(legend) + 2 * layout.num_parts <= layout.bar:
        text.append(legend)
        for part in range(layout.num_parts):
            text.append_text(part_bar([Run(part, 1)], 1, layout.num_parts)).append(" ")
    else:
        text.append(f"on parts 0-{layout.num_parts - 1}")
    text.append(" " * (layout.name + layout.filters + 4 + layout.bar - len(text)))
    return text.append(f"{figure:>{FIGURE_WIDTH}}")


def _rows(line: MapLine, layout: _Layout) -> Iterator["Text"]:
    """Yield the layer, then its kernels where others compute them, then its parts where the bar cannot say them."""
    yield _row(_name(line, layout.name), _filters(line), line.owners, layout).append_text(
        _figure(line.sent_bytes, layout)
    )
    if not _says_all(line.owners, layout):
        yield _listing(line.owners, layout)
    if line.kernels:
        yield _row("  kernels", "", line.kernels, layout).append_text(_figure(line.partial_bytes, layout))
        if not _says_all(line.kernels, layout):
            yield _listing(line.kernels, layout)


def _row(name: str, filters: str, runs: Sequence[Run], layout: _Layout) -> "Text":
    from rich.text import Text

    text = Text(f"{name:{layout.name}}  {filters:>{layout.filters}}  ")
    return text.append_text(part_bar(runs, layout.bar, layout.num_parts))


def _figure(num_bytes: int, layout: _Layout) -> "Text":
    """Return the bytes in the map's unit and stars for their share of the costliest layer's."""
    from rich.text import Text

    stars = round(MOST_STARS * num_bytes / layout.most_bytes) if layout.most_bytes else 0
    is_small = layout.scale.of(num_bytes) < 0.05
    figure = "-" if not num_bytes else "<0.1" if is_small else layout.scale.figure(num_bytes)
    return Text(f"{figure:>{FIGURE_WIDTH}} {'*' * stars}", style=STAR_STYLES[stars])


def _says_all(runs: Sequence[Run], layout: _Layout) -> bool:
    drawn = {run.part for run in fitted(runs, layout.bar)}
    return layout.num_parts <= len(CHARACTERS) and drawn == {run.part for run in runs}


def _listing(runs: Sequence[Run], layout: _Layout) -> "Text":
    from rich.text import Text

    indent = " " * (layout.name + layout.filters + 4)
    room = layout.bar + FIGURE_WIDTH + 1 + MOST_STARS
    lines = wrap("on " + part_list(run.part for run in runs), room)
    return Text("\n".join(indent + line for line in lines), style="dim")


def _footer(plan: Plan, lines: Sequence[MapLine], width: int) -> list[str]:
    """Return the total, the key and the layers placed whole, wrapped."""
    when = "a training iteration on" if plan.metrics.judges_training else "the forward pass of"
    words = [f"{size(plan.metrics.judged_bytes)} cross between parts in {when} {plan.settings.batch} rows."]
    if plan.metrics.judges_training:
        words.append(
            "by rows: the bar is the batch, and each of its parts has all weights; by filters: the bar is the filters."
        )
    if any(line.kernels for line in lines):
        words.append("kernels: who multiplies; their bytes are the partial sums sent to the owners.")
    if any(line.num_layers > 1 for line in lines):
        words.append(
            "a .. b: layers on the same part, of which only b sends anything, or split by rows in the same way."
            if any(line.num_layers > 1 and line.split == "by rows" for line in lines)
            else "a .. b: layers on the same part, of which only b sends anything."
        )
    words += [character_key(plan.settings.k), *whole_layers(plan)]
    return [line for word in words for line in wrap(word, width, subsequent_indent="  ")]


def fitted(runs: Sequence[Run], width: int) -> tuple[Run, ...]:
    """Return the runs scaled to sizes that add up to the width.

    Every run keeps at least one column, so that nobody's few filters vanish; where there are more runs than columns,
    each column shows the run in its middle.
    """
    if len(runs) > width:
        return _sampled(runs, width)
    spare, total = width - len(runs), sum(run.size for run in runs)
    sizes = [1 + spare * run.size // total for run in runs]
    by_remainder = sorted(range(len(runs)), key=lambda i: -(spare * runs[i].size % total))
    for i in by_remainder[: width - sum(sizes)]:
        sizes[i] += 1
    return tuple(Run(run.part, size) for run, size in zip(runs, sizes, strict=True))


def part_bar(runs: Sequence[Run], width: int, num_parts: int) -> "Text":
    """Return the bar: a run's first character can be read, the others too where there is no colour."""
    from rich.text import Text

    bar = Text()
    for run in fitted(runs, width):
        color = part_color(run.part, num_parts)
        character = part_character(run.part)
        bar.append(character, style=f"bold {text_color(color)} on {color}")
        bar.append(character * (run.size - 1), style=f"{color} on {color}")
    return bar


def part_list(parts: Iterable[int]) -> str:
    """Return 0, 1, 2, 5 as `0-2 5`."""
    runs: list[list[int]] = []
    for part in sorted(set(parts)):
        if runs and part == runs[-1][1] + 1:
            runs[-1][1] = part
        else:
            runs.append([part, part])
    return " ".join(f"{low}-{high}" if high > low else str(low) for low, high in runs)


def _sampled(runs: Sequence[Run], width: int) -> tuple[Run, ...]:
    part_at = [run.part for run in runs for _ in range(run.size)]
    return tuple(Run(part_at[(2 * column + 1) * len(part_at) // (2 * width)], 1) for column in range(width))
