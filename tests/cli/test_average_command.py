"""average: a table of nodes with real accuracy and predicted seconds."""

import json

import pytest

SMALL = ("lenet5", "--data", "synthetic", "--images", 64, "--epochs", 1, "--batch", 8)


def test_more_nodes_are_faster_where_the_network_is_and_files_are_written(run, tmp_path):
    ran = run("average", *SMALL, "--nodes", "1,2", "--cluster", "2x1@100gbit", "--json", "--out", tmp_path)
    assert ran.code == 0, ran.err
    one, two = json.loads(ran.out)["rows"]
    assert (one["nodes"], two["nodes"]) == (1, 2)
    assert two["compute_seconds"] == pytest.approx(one["compute_seconds"] / 2, rel=0.05)
    assert two["improvement"] == pytest.approx(1 - two["seconds"] / one["seconds"])
    assert two["improvement"] > 0.3
    assert 0 <= two["accuracy"] <= 1
    assert {"averaging.csv", "averaging.md"} <= {path.name for path in tmp_path.iterdir()}


def test_folds_have_an_accuracy_each(run):
    ran = run("average", *SMALL, "--nodes", "2", "--folds", 3)
    assert ran.code == 0, ran.err
    assert "mean of 3 folds" in ran.out


@pytest.mark.parametrize("nodes", ["9", "0", "two"])
def test_nodes_that_are_not_there_are_refused(run, nodes):
    ran = run("average", *SMALL, "--nodes", nodes)
    assert ran.code == 2
    assert "error: --nodes" in ran.err
