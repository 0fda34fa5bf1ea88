"""What every part did with its time, as a table."""

from typing import TYPE_CHECKING

import numpy as np

from hyperplace.report.terminal import TerminalTable
from hyperplace.values.timeline import Timeline

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import RenderableType


def timeline_table(timeline: Timeline) -> "pd.DataFrame":
    """Return a row per part and one for all: its busy, waiting and idle time, and the share without work.

    The last row sums the times, has the bubble of all parts together, and counts every mini-batch once.
    """
    import pandas as pd

    table = pd.DataFrame({"part": [*(str(part) for part in range(timeline.num_parts)), "all"]})
    times = {"busy": timeline.busy_us, "waiting": timeline.waiting_us, "idle": timeline.idle_us}
    for name, per_part in times.items():
        table[f"{name} ms"] = np.append(per_part, per_part.sum()) / 1e3
    table["bubble %"] = 100 * np.append(timeline.bubble, timeline.bubble.mean())
    table["mini-batches"] = [*timeline.batches_per_part.tolist(), len(timeline.batches)]
    return table


def render_timeline(timeline: Timeline) -> "RenderableType":
    """Return the table for the terminal, and a line on the whole span below it."""
    from rich.console import Group
    from rich.text import Text

    return Group(TerminalTable(timeline_table(timeline), spare=("idle",)), Text(span_line(timeline)))


def span_line(timeline: Timeline) -> str:
    """Say in a sentence how long it took and how many parts were busy at a time."""
    made = "predicted" if timeline.is_predicted else "measured"
    at_a_time = timeline.busy_us.sum() / timeline.span_us if timeline.span_us else 0.0
    return (
        f"{timeline.span_us / 1e3:,.1f} ms {made}; on average {at_a_time:.2f} of {timeline.num_parts} parts were busy"
    )
