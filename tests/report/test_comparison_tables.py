import csv
import io
from dataclasses import replace
from importlib.resources import files

import pytest
from report_examples import MIB, VGG16_PARAMETER_BYTES, check_golden, comparison, row

from hyperplace.errors import HyperplaceError
from hyperplace.report import comparison_document, csv_text, markdown_text, plain_text
from hyperplace.report.comparison import epoch_table, volume_table, work_table
from hyperplace.report.work import work_scale
from hyperplace.values.comparison import Comparison, ComparisonRow

COMMAND = "hyperplace compare vgg16 --k 2,4 --imbalance 0.03,0.1"


def printed_csv(name):
    text = (files("hyperplace.report") / name).read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))


def test_the_tables_are_the_promised_text():
    document = comparison_document(comparison())
    check_golden("comparison.txt", plain_text(document, 160))
    check_golden("comparison-80.txt", plain_text(document, 80))
    check_golden("comparison.md", markdown_text(document, COMMAND))
    check_golden("comparison.csv", csv_text(document))


@pytest.mark.parametrize("width", [60, 80, 100, 120])
def test_no_number_is_broken_however_narrow(width):
    text = plain_text(comparison_document(comparison()), width)
    assert max(len(line) for line in text.splitlines()) <= width
    assert "252.3" in text
    assert "…" not in text


def test_markdown_starts_with_its_command_and_parses_back_into_the_tables():
    text = markdown_text(comparison_document(comparison()), COMMAND)
    assert text.startswith(f"```sh\n{COMMAND}\n```\n")
    read = [part.splitlines() for part in text.split("\n\n") if part.startswith("| ")]
    tables = [work_table(comparison()), volume_table(comparison()), epoch_table(comparison())]
    assert len(read) == 3
    for lines, table in zip(read, tables, strict=True):
        grid = [[text.strip() for text in line.strip("|").split("|")] for line in (lines[0], *lines[2:])]
        assert grid == [list(table.headings), *map(list, table.rows)]
        for name, column in zip(grid[0], zip(*grid[1:], strict=True), strict=True):
            for text, value in zip(column, table[name], strict=True):
                if isinstance(value, float):
                    assert float(text.replace(",", "")) == pytest.approx(value, abs=0.051)


def test_csv_holds_every_digit():
    lines = list(csv.DictReader(io.StringIO(csv_text(comparison_document(comparison())))))
    assert len(lines) == len(comparison().rows)
    (line,) = (line for line in lines if line["method"] == "coarse" and line["k"] == "4" and line["imbalance"] == "0.1")
    assert int(line["volume_bytes"]) == round(252.3 * MIB)
    assert float(line["max_over_avg"]) == 1.09
    assert (line["feasible"], line["mark"], line["seconds"]) == ("True", "best", "0.25")
    assert (line["batch"], line["parameter_bytes"]) == ("32", str(VGG16_PARAMETER_BYTES))
    (failed,) = (line for line in lines if line["has_figures"] == "False")
    assert (failed["volume_bytes"], failed["max_over_avg"], failed["mark"]) == ("", "", "no result")


def test_the_thesis_figures_are_those_it_printed():
    rows = [
        row(line["method"], int(line["parts"]), 1, imbalance=float(line["imbalance"]) if line["imbalance"] else None)
        for line in printed_csv("thesis_work.csv")
    ]
    full = replace(comparison(), rows=tuple(rows))
    work, volume = work_table(full), volume_table(full)
    for table, name, column, theirs in (
        (work, "thesis_work.csv", "thesis max/avg", "max_over_avg"),
        (work, "thesis_work.csv", "thesis max/min", "max_over_min"),
        (volume, "thesis_volume.csv", "thesis forward MiB", "volume_mib"),
    ):
        ours = {
            (m, "" if e is None else f"{e:g}", str(k)): value
            for m, e, k, value in zip(table["method"], table["imbalance"], table["k"], table[column], strict=True)
        }
        assert ours == {
            (line["method"], line["imbalance"], line["parts"]): float(line[theirs]) for line in printed_csv(name)
        }


def test_table_5_14():
    rows = tuple(row("coarse", k, mib, imbalance=0.1) for k, mib in ((2, 27.5), (4, 61.2), (8, 298.75)))
    table = epoch_table(replace(comparison(), rows=rows))
    printed_rows = printed_csv("thesis_epoch.csv")
    assert list(table["thesis data parallel GiB"]) == [float(line["data_parallel_gib"]) for line in printed_rows]
    assert list(table["thesis coarse GiB"]) == [float(line["coarse_gib"]) for line in printed_rows]
    # Our formulas, fed with the thesis's volumes, give the thesis's table: it cuts, so ours is up to 1 more.
    assert list(table["data parallel GiB"]) == pytest.approx(list(table["thesis data parallel GiB"]), abs=1)
    assert list(table["coarse GiB"]) == pytest.approx(list(table["thesis coarse GiB"]), abs=1)
    assert list(table["less %"]) == pytest.approx(list(table["thesis less %"]), abs=1)


def test_an_epoch_does_not_depend_on_the_comparisons_batch():
    small = replace(
        comparison(batch=16),
        rows=tuple(replace(r, training_volume_bytes=r.training_volume_bytes // 2) for r in comparison().rows),
    )
    assert epoch_table(small)["coarse GiB"] == pytest.approx(epoch_table(comparison())["coarse GiB"])


def test_the_best_within_the_limit_is_marked_and_what_is_over_never_is():
    table = volume_table(comparison())
    marks = {
        (k, method, cells_of): mark
        for k, method, cells_of, mark in zip(
            table["k"], table["method"], [limit or 0 for limit in table["imbalance"]], table["mark"], strict=True
        )
    }
    assert marks[4, "coarse", 0.1] == "best"
    assert marks[4, "fine", 0.1] == ""
    assert marks[4, "coarse", 0.03] == "over"
    assert marks[4, "fine", 0.03] == "no result"
    assert marks[4, "filter-wise incremental", 0] == "best at 0.03"
    assert marks[4, "layer-wise", 0] == "", "the lowest volume of all, but it meets no limit"
    assert marks[2, "layer-wise", 0] == "best at 0.1", "as good as coarse"


def test_another_model_has_no_thesis_columns_or_notes():
    other = comparison("alexnet")
    for table in (work_table(other), volume_table(other), epoch_table(other)):
        assert not [name for name in table.headings if "thesis" in name]
    assert "thesis" not in markdown_text(comparison_document(other), "x")
    assert "thesis forward MiB" not in volume_table(comparison(batch=16)).headings
    assert "batch 32 only" in plain_text(comparison_document(comparison(batch=16)), 160)


def test_two_partitioners_of_a_method_are_told_apart():
    rows = (row("coarse", 2, 98, imbalance=0.1), row("coarse", 2, 99, imbalance=0.1, partitioner="mtkahypar"))
    assert volume_table(replace(comparison(), rows=rows))["method"] == (
        "coarse (kahypar)",
        "coarse (mtkahypar)",
    )


def test_work_is_shown_in_a_unit_both_grains_share():
    fine = replace(row("fine", 2, 1, imbalance=0.1), work_unit="500000 flops", max_work=2000, avg_work=2000.0)
    table = work_table(replace(comparison(), rows=(row("coarse", 2, 1, imbalance=0.1), fine)))
    assert list(table["max GFLOP"]) == [1.0, 1.0]
    assert work_scale([(5, "1e-05 us")]).name == "us"
    assert work_scale([(5, "100 us"), (7, "3 flops")]).name == "units"
    assert work_scale([(5, "")]).name == "units"
    assert work_scale([]).name == "units"


def test_volumes_of_a_small_model_are_in_kib():
    table = volume_table(replace(comparison("lenet5"), rows=(row("coarse", 2, 0.25, imbalance=0.1, model="lenet5"),)))
    assert (table["forward KiB"], table["training KiB"]) == ((256,), (512,))


def test_every_row_shows_the_seconds_of_its_own_search():
    rows = [row("coarse", k, 1, imbalance=0.1, seconds=seconds) for k, seconds in ((2, 0.25), (4, 7.0))]
    assert volume_table(replace(comparison(), rows=tuple(rows)))["search s"] == (0.25, 7.0)
    timeless = replace(comparison(), rows=(row("coarse", 2, 1, imbalance=0.1),))
    assert "search s" not in volume_table(timeless).headings


def test_nothing_to_compare():
    empty = replace(comparison(), rows=())
    assert len(work_table(empty)) == len(volume_table(empty)) == len(epoch_table(empty)) == 0
    assert plain_text(comparison_document(empty), 160)


def test_rows_and_comparisons_that_make_no_sense_are_refused():
    with pytest.raises(HyperplaceError, match="imbalance is None, but feasible is True"):
        replace(row("coarse", 2, 1), feasible=True)
    with pytest.raises(HyperplaceError, match="k is 0"):
        row("coarse", 0, 1)
    with pytest.raises(HyperplaceError, match="is there twice"):
        Comparison("vgg16", 32, "flops", 64, "whole", 1, (row("coarse", 2, 1), row("coarse", 2, 3)))
    with pytest.raises(HyperplaceError, match="is of alexnet"):
        Comparison("vgg16", 32, "flops", 64, "whole", 1, (row("coarse", 2, 1, model="alexnet"),))


def test_meeting_a_limit_exactly_is_meeting_it():
    assert row("layer-wise", 7, 1, 1.1).meets(0.1)
    assert not row("layer-wise", 7, 1, 1.101).meets(0.1)
    assert isinstance(repr(comparison()), str)
    assert not next(r for r in comparison().rows if not r.has_figures).meets(9.0)


def test_a_plan_as_a_row():
    from report_examples import fine_plan

    plan = fine_plan()
    limited, free = (ComparisonRow.of("fine", plan, limit, 2.0) for limit in (0.1, None))
    assert (limited.feasible, free.feasible) == (False, None)
    assert (limited.max_work, limited.min_work, limited.avg_work) == (130, 70, 100.0)
    assert limited.max_over_avg == plan.metrics.max_over_avg
    assert limited.max_over_min == plan.metrics.max_over_min
    assert limited.max_times_k == plan.metrics.max_times_k
    assert limited.max_part_bytes == 7 * MIB
    assert limited.seconds == 2.0
