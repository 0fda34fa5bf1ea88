"""Several comparisons in one table: what counts, who is best, and whether hybrid keeps its promise."""

from dataclasses import replace

import pytest
from report_examples import MIB, check_golden, comparison, row

from hyperplace.report import csv_text, markdown_text, overview_document, plain_text
from hyperplace.report.overview import overview_table

COMMAND = "hyperplace compare vgg16,alexnet --k 2,4"


def two_models(hybrid_mib=97.0):
    ours = replace(row("hybrid", 2, hybrid_mib, imbalance=0.1), grain="hybrid")
    first = replace(comparison(), rows=(*comparison().rows, ours))
    return [first, comparison("alexnet")]


def test_the_overview_is_the_promised_text():
    check_golden("overview.md", markdown_text(overview_document(two_models()), COMMAND))
    check_golden("overview.txt", plain_text(overview_document(two_models()), 200))


def test_a_row_per_model_k_and_limit():
    table = overview_table(two_models())
    assert list(zip(table["model"], table["k"], table["imbalance"], strict=True)) == [
        (model, k, limit) for model in ("vgg16", "alexnet") for k, limit in ((2, 0.03), (2, 0.1), (4, 0.03), (4, 0.1))
    ]
    cells = {column.name: column.cells for column in table.columns}
    assert cells["layer-wise"][-1] == "400.0 (1.20)"
    assert table["layer-wise"][-1] == 400, "a number for whoever sorts"
    assert cells["fine"][2] == "no result"
    assert cells["hybrid"][0] == ""


def test_the_least_meets_the_limit():
    table = overview_table(two_models())
    assert list(table["least"][:4]) == ["", "hybrid", "filter-wise incremental", "coarse"]


@pytest.mark.parametrize(("hybrid_mib", "words"), [(98.0, "never above"), (98.5, "is above layer-wise for vgg16")])
def test_hybrid_is_checked_against_all_that_meet_the_limit(hybrid_mib, words):
    assert words in plain_text(overview_document(two_models(hybrid_mib)), 200)
    assert "above" not in plain_text(overview_document([comparison()]), 200).split("least:")[1], (
        "without hybrid there is nothing to check"
    )


@pytest.mark.parametrize("width", [80, 120])
def test_it_fits(width):
    text = plain_text(overview_document(two_models()), width)
    assert max(len(line) for line in text.splitlines()) <= width


def test_csv_of_several_models_has_one_header():
    lines = csv_text(overview_document(two_models())).splitlines()
    assert len(lines) == 1 + sum(len(one.rows) for one in two_models())
    assert [line.split(",")[0] for line in lines[:2]] == ["model", "vgg16"]
    assert "training_over_data_parallel" in lines[0]


def test_volumes_against_data_parallelism():
    one = row("coarse", 2, 98, imbalance=0.1)
    assert one.training_over_data_parallel == one.training_volume_bytes / one.data_parallel_bytes
    assert one.training_volume_bytes == 2 * 98 * MIB
