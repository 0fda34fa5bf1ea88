"""Words and numbers of figures that must be readable whatever is drawn: titles that fit, ticks of logarithmic axes."""

import math
import textwrap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SIZE, LEAST_SIZE = 13.0, 9.0
FULL = 0.98  # of the figure's width
ENOUGH_TICKS = 3
# Of a decade, until there are enough.
SUBS = ((1.0,), (1.0, 3.0), (1.0, 2.0, 5.0), (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0))


def set_title(figure: "Figure", text: str) -> None:
    """Put a title above a figure: in smaller letters where it is long, and then in several lines; never cut off."""
    title = figure.suptitle(text, fontsize=SIZE, fontweight="bold", parse_math=False)
    room = FULL * figure.bbox.width
    title.set_fontsize(max(LEAST_SIZE, min(SIZE, SIZE * room / max(title.get_window_extent().width, 1.0))))
    # A character's width is another for every letter, so lines are shortened until they fit.
    width = len(text)
    while title.get_window_extent().width > room and width > 20:
        width = min(width - 1, int(width * room / title.get_window_extent().width) + 2)
        title.set_text("\n".join(textwrap.wrap(text, width)))


def shortened(text: str, most: int) -> str:
    """Return a name with its middle left out where it is long."""
    kept = most - 1
    return text if len(text) <= most else f"{text[: kept - kept // 2]}…{text[-(kept // 2) :]}"


def set_log_scale(axes: "Axes") -> None:
    """Make the vertical axis logarithmic, with plain numbers at some ticks however little it spans."""
    axes.set_yscale("log")
    ticks = log_ticks(*axes.get_ylim())
    axes.set_yticks(ticks, [f"{tick:,.10g}" for tick in ticks])
    axes.minorticks_off()


def log_ticks(low: float, high: float) -> list[float]:
    """Return round numbers from low to high, three or more: of decades, then within them, then in equal steps."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for subs in SUBS:
        found = [sub * 10.0**decade for decade in decades for sub in subs if low <= sub * 10.0**decade <= high]
        if len(found) >= ENOUGH_TICKS:
            return [float(f"{tick:.10g}") for tick in found]
    return _even_ticks(low, high)


def _even_ticks(low: float, high: float) -> list[float]:
    """Return a few multiples of a round step."""
    rough = (high - low) / (ENOUGH_TICKS + 1)
    size = 10.0 ** math.floor(math.log10(rough))
    step = max(size * times for times in (1, 2, 5) if size * times <= rough)
    return [float(f"{n * step:.10g}") for n in range(math.ceil(low / step), math.floor(high / step) + 1)]
