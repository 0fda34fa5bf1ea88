"""A comparison as a figure: volume and balance of every method over k."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import cycle
from typing import TYPE_CHECKING

from hyperplace.report.palette import FEW, MARKERS
from hyperplace.report.rows import is_over, label, limits_of, ordered_rows
from hyperplace.report.titles import set_log_scale, set_title
from hyperplace.values.comparison import Comparison, ComparisonRow
from hyperplace.values.sizes import MIB

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BALANCE_TICKS = (1, 1.1, 1.2, 1.5, 2, 3, 5, 10, 20, 50, 100)


@dataclass(frozen=True)
class _Curve:
    """One method under one limit, over k."""

    name: str
    color: str
    marker: str
    rows: list[ComparisonRow]


def comparison_figure(comparison: Comparison) -> "Figure":
    """Return the figure, without touching any global state of matplotlib."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13, 5.6), layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2)
    curves = _curves(comparison)
    _draw_volume(left, comparison, curves)
    _draw_balance(right, comparison, curves)
    handles, names = left.get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=4, frameon=False, fontsize=9)
    set_title(figure, f"{comparison.model}, batch {comparison.batch}")
    return figure


def _curves(comparison: Comparison) -> list[_Curve]:
    rows_of: dict[str, list[ComparisonRow]] = {}
    for row in sorted(ordered_rows(comparison), key=lambda row: row.imbalance or 0):
        limit = "" if row.imbalance is None else f", imbalance {row.imbalance:g}"
        rows_of.setdefault(label(row, comparison) + limit, []).append(row)
    return [
        _Curve(name, FEW[i % len(FEW)], MARKERS[i % len(MARKERS)], rows)
        for i, (name, rows) in enumerate(rows_of.items())
    ]


def _draw_volume(axes: "Axes", comparison: Comparison, curves: list[_Curve]) -> None:
    for curve in curves:
        _draw(axes, curve, lambda row: row.training_volume_bytes / MIB, limits_of(comparison))
    copied = {row.k: row.data_parallel_bytes / MIB for row in ordered_rows(comparison) if row.k > 1}
    axes.plot(list(copied), list(copied.values()), "k--", linewidth=1.5, label="data parallelism")
    _finish(axes, comparison, "Training volume per iteration (MiB); hollow: over the limit")
    if any(row.training_volume_bytes for row in comparison.rows if row.k > 1):
        set_log_scale(axes)


def _draw_balance(axes: "Axes", comparison: Comparison, curves: list[_Curve]) -> None:
    for curve in curves:
        _draw(axes, curve, lambda row: row.max_over_avg, limits_of(comparison))
    for limit, dashes in zip(limits_of(comparison), cycle(("--", ":", "-.")), strict=False):
        axes.axhline(1 + limit, color="#c0392b", linestyle=dashes, linewidth=1.2, label=f"limit {1 + limit:g}")
    _finish(axes, comparison, "Work of the heaviest part / average (max/avg)")
    highest = max((row.max_over_avg for row in comparison.rows if row.has_figures), default=1.0)
    axes.set_yscale("log")
    axes.set(ylim=(0.98, 1.2 * max(highest, 1.2)))
    axes.set_yticks(ticks := [tick for tick in BALANCE_TICKS if tick <= max(highest, 1.2)], [f"{t:g}" for t in ticks])
    axes.minorticks_off()
    handles, names = axes.get_legend_handles_labels()
    axes.legend(handles[len(curves) :], names[len(curves) :], loc="upper left", frameon=False, fontsize=9)


def _draw(axes: "Axes", curve: _Curve, value: Callable[[ComparisonRow], float], limits: list[float]) -> None:
    """Draw a curve; zero has no place on a logarithmic scale, so k = 1 is left out."""
    rows = [row for row in curve.rows if row.k > 1 and row.has_figures]
    ks, values = [row.k for row in rows], [value(row) for row in rows]
    axes.plot(ks, values, color=curve.color, marker=curve.marker, markersize=5, linewidth=1.4, label=curve.name)
    over = [(row.k, value(row)) for row in rows if is_over(row, limits)]
    for k, amount in over:
        axes.plot(k, amount, color=curve.color, marker=curve.marker, markersize=5, markerfacecolor="white")


def _finish(axes: "Axes", comparison: Comparison, title: str) -> None:
    ks = sorted({row.k for row in comparison.rows if row.k > 1})
    axes.set_xscale("log", base=2)
    axes.set_xticks(ks, [str(k) for k in ks])
    axes.minorticks_off()
    axes.set_xlabel("k (parts)")
    axes.set_title(title, fontsize=10, loc="left")
    axes.grid(color="#dddddd", linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
