"""How training went, as tables (every epoch, and where it ended), as CSV with every digit, and as a figure."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from hyperplace.report.document import Column, Document, Figure, Section, Table, Text, Value
from hyperplace.report.palette import FEW, MARKERS
from hyperplace.report.titles import set_title
from hyperplace.values.history import History, HistoryRow

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Picture


@dataclass(frozen=True)
class _Spread:
    """Means over seeds, and how far the lowest and the highest are from them."""

    means: list[float]
    reach: tuple[list[float], list[float]]

    @classmethod
    def of(cls, epochs: list[tuple[HistoryRow, ...]], value: Callable[[HistoryRow], float]) -> "_Spread":
        means = [_mean(rows, value) for rows in epochs]
        # A mean of equal numbers may round to a little outside them.
        below = [max(mean - min(map(value, rows)), 0.0) for mean, rows in zip(means, epochs, strict=True)]
        above = [max(max(map(value, rows)) - mean, 0.0) for mean, rows in zip(means, epochs, strict=True)]
        return cls(means, (below, above))


def history_document(history: History) -> Document:
    """Return where each method ended, every epoch, the curves, and every run with every digit."""
    head = Text(f"{history.name}: means over seeds, with the lowest and highest accuracy of any seed.", "head")
    sections = (
        Section((final_table(history),), "After the last epoch"),
        Section((history_table(history),), "Every epoch"),
        Section((_curves(history),)),
    )
    names = [f.name for f in fields(HistoryRow)]
    data = Table(tuple(Column(name, tuple(getattr(row, name) for row in history.rows)) for name in names))
    return Document((head,), sections, data)


def _curves(history: History) -> Figure:
    return Figure(
        name="history",
        caption="Test accuracy over epochs and over wall time; bars: lowest to highest seed.",
        alt=f"Curves of {history.name}, as in the tables above",
        draw=lambda: history_figure(history),
    )


def history_table(history: History) -> Table:
    """Return a row per method and epoch: means over its seeds, and the lowest and highest accuracy of any."""
    return Table(
        _columns([history.at(method, epoch) for method in history.methods for epoch in history.epochs(method)])
    )


def final_table(history: History) -> Table:
    """Return the last epoch of every method, beside the first method's: points of accuracy and times as fast."""
    ends = [history.at(method, epochs[-1]) for method in history.methods if (epochs := history.epochs(method))]
    accuracy = [_mean(rows, _percent) for rows in ends]
    pace = [_mean(rows, lambda row: row.seconds) / rows[0].epoch for rows in ends]
    return Table(
        (
            *_columns(ends),
            Column.numbers("points more", [percent - accuracy[0] for percent in accuracy], form=",.2f"),
            Column.numbers("x as fast", [pace[0] / own if own else None for own in pace], form=",.2f"),
        )
    )


def _columns(cases: list[tuple[HistoryRow, ...]]) -> tuple[Column, ...]:
    """Return a line per case, which is one method after one epoch, with all its seeds."""

    def each(value: Callable[[tuple[HistoryRow, ...]], Value]) -> list[Value]:
        return [value(rows) for rows in cases]

    return (
        Column.words("method", each(lambda rows: rows[0].method)),
        Column.numbers("epoch", each(lambda rows: rows[0].epoch)),
        Column.numbers("seeds", each(len)),
        Column.numbers("seconds", each(lambda rows: _mean(rows, lambda row: row.seconds))),
        Column.numbers("train loss", each(lambda rows: _mean(rows, lambda row: row.train_loss)), form=",.4f"),
        Column.numbers("accuracy", each(lambda rows: _mean(rows, _percent)), "%", form=",.2f"),
        Column.numbers("lowest", each(lambda rows: min(map(_percent, rows))), "%", form=",.2f"),
        Column.numbers("highest", each(lambda rows: max(map(_percent, rows))), "%", form=",.2f"),
    )


def _percent(row: HistoryRow) -> float:
    return 100 * row.test_accuracy


def history_figure(history: History) -> "Picture":
    """Return accuracy over epochs and over seconds: means over seeds, with bars from the lowest to the highest."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as Picture

    figure = Picture(figsize=(13, 5.2), layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2, sharey=True)
    _draw(left, history, lambda row: row.epoch)
    _draw(right, history, lambda row: row.seconds)
    _finish(left, "Test accuracy (%) over epochs; bars: lowest to highest seed", "epochs")
    _finish(right, "Test accuracy (%) over wall time", "seconds")
    left.xaxis.get_major_locator().set_params(integer=True)
    handles, names = left.get_legend_handles_labels()
    if handles:
        figure.legend(handles, names, loc="outside lower center", ncols=2, frameon=False, fontsize=9)
    set_title(figure, history.name)
    return figure


def _draw(axes: "Axes", history: History, x_of: Callable[[HistoryRow], float]) -> None:
    for number, method in enumerate(history.methods):
        epochs = [history.at(method, epoch) for epoch in history.epochs(method)]
        x, y = _Spread.of(epochs, x_of), _Spread.of(epochs, _percent)
        axes.errorbar(
            x.means,
            y.means,
            xerr=x.reach,
            yerr=y.reach,
            color=FEW[number % len(FEW)],
            marker=MARKERS[number % len(MARKERS)],
            markersize=4,
            linewidth=1.4,
            capsize=3,
            elinewidth=1,
            label=_label(method, epochs),
        )


def _label(method: str, epochs: list[tuple[HistoryRow, ...]]) -> str:
    if not epochs:
        return method
    last = epochs[-1]
    accuracy, seconds = (_mean(last, value) for value in (lambda row: row.test_accuracy, lambda row: row.seconds))
    return f"{method}, {len(last)} seeds: {100 * accuracy:.2f}% after {last[0].epoch} epochs, {seconds:,.1f} s"


def _finish(axes: "Axes", title: str, unit: str) -> None:
    axes.set_title(title, fontsize=10, loc="left")
    axes.set_xlabel(unit)
    axes.tick_params(labelleft=True)
    axes.grid(color="#dddddd", linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)


def _mean(rows: tuple[HistoryRow, ...], value: Callable[[HistoryRow], float]) -> float:
    return sum(value(row) for row in rows) / len(rows)
