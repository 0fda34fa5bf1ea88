"""A history that exists is valid, and gives its rows back by run and by epoch."""

from dataclasses import replace

import pytest

from hyperplace.errors import HyperplaceError
from hyperplace.values.history import History, HistoryRow

ROW = HistoryRow(seed=0, method="plain", epoch=1, seconds=2.0, train_loss=0.5, test_accuracy=0.8)
ROWS = (
    replace(ROW, seed=7, epoch=2, seconds=5.0),
    ROW,
    replace(ROW, seed=7),
    replace(ROW, epoch=2, seconds=4.0),
    replace(ROW, epoch=3, seconds=6.0),
    replace(ROW, method="async", epoch=1),
)


def test_every_row_is_in_one_run_and_one_epoch():
    history = History("net", ROWS)
    runs = [history.run(method, seed) for method in history.methods for seed in history.seeds(method)]
    assert sorted(map(repr, sum(runs, ()))) == sorted(map(repr, ROWS))
    epochs = [history.at(method, epoch) for method in history.methods for epoch in range(5)]
    assert sorted(map(repr, sum(epochs, ()))) == sorted(map(repr, ROWS))


def test_methods_seeds_and_epochs():
    history = History("net", ROWS)
    assert repr(history) == "History(net, 3 runs of plain, async)"
    assert (history.methods, history.seeds("plain")) == (("plain", "async"), (0, 7))
    assert history.epochs("plain") == (1, 2)
    assert [row.epoch for row in history.run("plain", 0)] == [1, 2, 3]
    assert [row.seed for row in history.at("plain", 2)] == [0, 7]
    assert (history.epochs("unknown"), repr(History("net", ()))) == ((), "History(net, 0 runs of nothing)")


@pytest.mark.parametrize(
    ("rows", "fault"),
    [
        ([ROW, ROW], "plain from seed 0 has epoch 1 twice"),
        ([ROW, replace(ROW, epoch=2, seconds=1.5)], "plain from seed 0 goes back in time at epoch 2"),
        ([replace(ROW, epoch=0)], "is at no time"),
        ([replace(ROW, seconds=0.0)], "is at no time"),
        ([replace(ROW, seconds=float("inf"))], "is at no time"),
        ([replace(ROW, train_loss=float("nan"))], "has no loss"),
        ([replace(ROW, test_accuracy=80.0)], r"has an accuracy outside 0\.\.1"),
        ([replace(ROW, epoch=0, test_accuracy=-0.1)], r"is at no time; .* outside 0\.\.1"),
    ],
)
def test_a_history_that_exists_is_valid(rows, fault):
    with pytest.raises(HyperplaceError, match=f"^not a history: .*{fault}"):
        History("net", tuple(rows))
