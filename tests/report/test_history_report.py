import csv
import io

import numpy as np
import pytest
from report_examples import check_golden, png

from hyperplace.report import csv_text, history_document, markdown_text
from hyperplace.report.history import final_table, history_figure, history_table
from hyperplace.values.history import History, HistoryRow


def history():
    """Return a plain loop of three seeds, and a method that takes half the time for a point less."""
    rows = []
    for method, seconds, less in (("plain loop", 10.0, 0.0), ("async, k=2", 5.0, 0.01)):
        for seed in range(3):
            for epoch in (1, 2, 3):
                accuracy = 0.9 - 0.3 / 2**epoch + 0.01 * (seed - 1) - less
                rows.append(HistoryRow(seed, method, epoch, (seconds + seed) * epoch, 1 / epoch, accuracy))
    return History("net_a$b on fashion|mnist", tuple(rows))


def test_means_over_seeds_and_their_spread():
    table = history_table(history())
    assert list(table["epoch"]) == [1, 2, 3, 1, 2, 3]
    assert list(table["seeds"]) == [3] * 6
    assert list(table["seconds"]) == pytest.approx([11, 22, 33, 6, 12, 18])
    assert list(table["train loss"]) == pytest.approx([1, 1 / 2, 1 / 3] * 2)
    assert list(table["accuracy %"]) == pytest.approx([75, 82.5, 86.25, 74, 81.5, 85.25])
    lowest, mean, highest = (np.array(table[f"{name} %"]) for name in ("lowest", "accuracy", "highest"))
    assert mean - lowest == pytest.approx(np.ones(6))
    assert highest - mean == pytest.approx(np.ones(6))


def test_where_each_method_ended():
    table = final_table(history())
    assert list(table["method"]) == ["plain loop", "async, k=2"]
    assert list(table["points more"]) == pytest.approx([0, -1])
    assert list(table["x as fast"]) == pytest.approx([1, 33 / 18])


def test_an_epoch_that_a_seed_did_not_reach_is_not_averaged():
    short = History("net", history().rows[:-1])
    assert list(history_table(short)["epoch"]) == [1, 2, 3, 1, 2]
    assert list(final_table(short)["epoch"]) == [3, 2]
    assert list(final_table(short)["x as fast"]) == pytest.approx([1, 11 / 6])


def test_the_history_as_promised_text():
    check_golden("history.md", markdown_text(history_document(history()), "hyperplace bench net --epochs 3"))


def test_csv_holds_every_digit():
    lines = list(csv.DictReader(io.StringIO(csv_text(history_document(history())))))
    read = tuple(
        HistoryRow(
            int(line["seed"]),
            line["method"],
            int(line["epoch"]),
            *(float(line[name]) for name in ("seconds", "train_loss", "test_accuracy")),
        )
        for line in lines
    )
    assert read == history().rows


def test_the_figure_shows_means_over_epochs_and_over_seconds():
    figure = history_figure(history())
    assert png(figure).startswith(b"\x89PNG")
    epochs, seconds = figure.axes
    for axes, xs in ((epochs, [[1, 2, 3]] * 2), (seconds, [[11, 22, 33], [6, 12, 18]])):
        curves = np.array([container.lines[0].get_data() for container in axes.containers])
        assert curves[:, 0] == pytest.approx(np.array(xs))
        assert curves[:, 1] == pytest.approx(np.array([[75, 82.5, 86.25], [74, 81.5, 85.25]]))
    (legend,) = figure.legends
    assert legend.get_texts()[1].get_text() == "async, k=2, 3 seeds: 85.25% after 3 epochs, 18.0 s"


@pytest.mark.parametrize("num_rows", [0, 1, 4])
def test_histories_of_next_to_nothing(num_rows):
    few = History("net", history().rows[:num_rows])
    assert png(history_figure(few)).startswith(b"\x89PNG")
    assert len(final_table(few)) == min(num_rows, 1)
    assert markdown_text(history_document(few), "x").startswith("```sh\nx\n```\n")
