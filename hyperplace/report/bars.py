"""Bars of characters: who has how much of something, in a fixed number of columns."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from hyperplace.report.maplines import Run
from hyperplace.report.palette import part_character, part_color, text_color

if TYPE_CHECKING:
    from rich.text import Text


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
