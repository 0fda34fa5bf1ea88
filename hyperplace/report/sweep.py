"""A sweep over hosts and bandwidths: a table and a figure of how many times as fast as one device every method is."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hyperplace.report.document import Column, Document, Figure, Section, Table, Text, notes
from hyperplace.report.palette import FEW, MARKERS
from hyperplace.report.titles import set_title
from hyperplace.values.forecast import Forecast
from hyperplace.values.methods import BY_TIME

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Picture

Swept = Sequence[tuple[int, str, Forecast]]  # hosts, bandwidth, what a method takes there
PANEL_INCHES = 4.2


def sweep_document(rows: Swept) -> Document:
    """Return a column per cluster and a row per method, and a panel per bandwidth and schedule."""
    table, settings = sweep_table(rows), rows[0][2].plan.settings
    figure = Figure(
        name="sweep",
        caption="Speed-up over one device; dashed: as many times as there are hosts.",
        alt=f"Speed-up over one device of {len(table)} methods on {', '.join(_hosts(rows))} hosts",
        draw=lambda: sweep_figure(rows),
    )
    head = Text(f"{settings.model}, batch {settings.batch}: speed-up over one device, as predicted", "fact")
    said = [
        "a column is so many hosts like the cluster's first, with cards of so much",
        f"{BY_TIME}: searched for anew",
    ]
    return Document((head,), (Section((table, *notes(said), figure)),), table)


def sweep_table(rows: Swept) -> Table:
    """Return the speed-up of every method for every number of hosts and bandwidth."""
    methods = list(dict.fromkeys((one.name, one.schedule) for _, _, one in rows))
    places = list(dict.fromkeys((hosts, rate) for hosts, rate, _ in rows))
    found = {(hosts, rate, one.name, one.schedule): one.speed_up for hosts, rate, one in rows}
    return Table(
        (
            Column.words("method", [name for name, _ in methods], is_key=True),
            Column.words("schedule", [schedule for _, schedule in methods]),
            *(
                Column.numbers(
                    f"{hosts} at {rate}", [found.get((hosts, rate, *method)) for method in methods], form=".2f"
                )
                for hosts, rate in places
            ),
        )
    )


def sweep_figure(rows: Swept) -> "Picture":
    """Return the figure, without touching any global state of matplotlib."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as Picture

    rates = list(dict.fromkeys(rate for _, rate, _ in rows))
    schedules = list(dict.fromkeys(one.schedule for _, _, one in rows))
    size = (max(PANEL_INCHES * len(rates), 2 * PANEL_INCHES), 0.9 + PANEL_INCHES * len(schedules))
    figure = Picture(figsize=size, layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(len(schedules), len(rates), sharex=True, sharey=True, squeeze=False)
    for line, schedule in zip(panels, schedules, strict=True):
        for axes, rate in zip(line, rates, strict=True):
            chosen = [(hosts, one) for hosts, where, one in rows if (where, one.schedule) == (rate, schedule)]
            _draw(axes, chosen, f"{schedule}, {rate}")
    legends = [zip(*axes.get_legend_handles_labels(), strict=True) for axes in panels.flat]
    handles = {name: handle for legend in legends for handle, name in legend}
    figure.legend(handles.values(), handles, loc="outside lower center", ncols=5, frameon=False, fontsize=9)
    set_title(figure, f"{rows[0][2].plan.settings.model}, batch {rows[0][2].plan.settings.batch}, predicted")
    return figure


def _draw(axes: "Axes", chosen: Sequence[tuple[int, Forecast]], title: str) -> None:
    """Draw a curve per method over the hosts; all begin at one device alone, where there is nothing to choose."""
    hosts = sorted({number for number, _ in chosen})
    axes.plot(hosts, hosts, color="#999999", linestyle="--", linewidth=1)
    split = [(number, one) for number, one in chosen if one.plan.settings.k > 1]
    names = [name for name in dict.fromkeys(one.name for _, one in split) if name != BY_TIME]
    alone = {number: one.speed_up for number, one in chosen if one.plan.settings.k == 1}
    for index, name in enumerate((*names, BY_TIME)):
        points = alone | {number: one.speed_up for number, one in split if one.name == name}
        color, marker = FEW[index % len(FEW)], MARKERS[index % len(MARKERS)]
        axes.plot(
            list(points), list(points.values()), color=color, marker=marker, markersize=5, linewidth=1.2, label=name
        )
    axes.set_xscale("log", base=2)
    axes.set_xticks(hosts, [str(number) for number in hosts])
    axes.minorticks_off()
    axes.set_xlabel("hosts")
    axes.set_title(title, fontsize=10, loc="left")
    axes.grid(color="#dddddd", linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)


def _hosts(rows: Swept) -> list[str]:
    return [str(number) for number in sorted({hosts for hosts, _, _ in rows})]
