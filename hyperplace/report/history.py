"""How training went, as tables (every epoch, and where it ended), as CSV with every digit, and as a figure."""

import csv
import io
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING

from hyperplace.report.palette import FEW, MARKERS
from hyperplace.report.tables import markdown_table
from hyperplace.values.history import History, HistoryRow

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


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


def history_table(history: History) -> "pd.DataFrame":
    """Return a row per method and epoch: means over its seeds, and the lowest and highest accuracy of any."""
    import pandas as pd

    cases = [history.at(method, epoch) for method in history.methods for epoch in history.epochs(method)]
    percents = [[100 * row.test_accuracy for row in rows] for rows in cases]
    return pd.DataFrame(
        {
            "method": [rows[0].method for rows in cases],
            "epoch": [rows[0].epoch for rows in cases],
            "seeds": [len(rows) for rows in cases],
            "seconds": [_mean(rows, lambda row: row.seconds) for rows in cases],
            "train loss": [_mean(rows, lambda row: row.train_loss) for rows in cases],
            "accuracy %": [sum(percent) / len(percent) for percent in percents],
            "lowest %": [min(percent) for percent in percents],
            "highest %": [max(percent) for percent in percents],
        }
    )


def final_table(history: History) -> "pd.DataFrame":
    """Return the last epoch of every method, beside the first method's: points of accuracy and times as fast."""
    table = history_table(history).groupby("method", sort=False).tail(1).reset_index(drop=True)
    if len(table):
        table["points more"] = table["accuracy %"] - table["accuracy %"][0]
        table["x as fast"] = (table["seconds"][0] / table["epoch"][0]) / (table["seconds"] / table["epoch"])
    return table


def history_markdown(history: History, command: str) -> str:
    """Return the command that made it, where each method ended, and every epoch."""
    return (
        f"```sh\n{command}\n```\n"
        f"\n{history.name}: means over seeds, with the lowest and highest accuracy of any seed.\n"
        f"\n## After the last epoch\n\n{markdown_table(final_table(history))}"
        f"\n## Every epoch\n\n{markdown_table(history_table(history))}"
    )


def history_csv(history: History) -> str:
    """Return every run and epoch with every digit."""
    text = io.StringIO()
    writer = csv.DictWriter(text, [f.name for f in fields(HistoryRow)], lineterminator="\n")
    writer.writeheader()
    writer.writerows(asdict(row) for row in history.rows)
    return text.getvalue()


def history_figure(history: History) -> "Figure":
    """Return accuracy over epochs and over seconds: means over seeds, with bars from the lowest to the highest."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13, 5.2), layout="constrained")
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
    figure.suptitle(history.name, fontsize=13, fontweight="bold", parse_math=False)
    return figure


def _draw(axes: "Axes", history: History, x_of: Callable[[HistoryRow], float]) -> None:
    for number, method in enumerate(history.methods):
        epochs = [history.at(method, epoch) for epoch in history.epochs(method)]
        x, y = _Spread.of(epochs, x_of), _Spread.of(epochs, lambda row: 100 * row.test_accuracy)
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
