import pytest
from report_examples import MIB, check_golden, coarse_plan, fine_plan, hybrid_plan, layer, plan, printed, row, settings

from hyperplace.report import parts_table, render_parts, render_versus, versus_table
from hyperplace.report.versus import better_lines
from hyperplace.values.comparison import ComparisonRow


def others():
    failed = ComparisonRow.failed("layer-wise", settings(3), None, 5, "too few layers")
    return [
        row("filter-wise incremental", 3, 97.0, 1.02, partitioner="incremental"),
        row("filter-wise horizontal", 3, 90.0, 1.3, partitioner="horizontal"),
        failed,
    ]


def test_a_row_per_part_with_its_own_figures():
    table = parts_table(coarse_plan())
    assert table["part"].tolist() == [0, 1, 2]
    assert table["work %"].tolist() == pytest.approx([30, 35, 35])
    assert table["work MFLOP"].tolist() == [90, 105, 105]
    assert table["parameters MiB"].tolist() == [1, 2, 3]
    assert table["sent MiB"].tolist() == pytest.approx([97.5, 1000 / MIB, 0])
    assert table["received MiB"].sum() == pytest.approx(table["sent MiB"].sum())
    assert (table["messages out"].tolist(), table["messages in"].tolist()) == ([3, 1, 0], [0, 2, 2])


def test_parts_of_a_plan_that_splits_rows_send_and_receive_all_that_training_moves():
    found = hybrid_plan()
    table = parts_table(found)
    assert table["sent MiB"].sum() == pytest.approx(found.metrics.training_volume_bytes / MIB)
    for replica in found.replicas:
        assert table["sent MiB"][replica.part] >= replica.parameter_bytes / MIB
        assert table["received MiB"][replica.owner] >= replica.parameter_bytes / MIB
    assert "in a training iteration" in printed(render_parts(found), 100)


def test_the_parts_as_promised_text():
    check_golden("parts-coarse.txt", printed(render_parts(coarse_plan()), 100))
    check_golden("parts-narrow.txt", printed(render_parts(coarse_plan()), 70))


def test_a_part_over_the_limit_is_named():
    text = printed(render_parts(fine_plan()))
    assert "max/avg 1.300, over the limit of 1.1: part 0 is too heavy" in text
    assert "within the limit of 1.1" in printed(render_parts(coarse_plan()))


def test_no_work_at_all():
    idle = plan([layer("a", [(0, 4)])], 2, work=[0, 0])
    assert parts_table(idle)["work %"].tolist() == [0, 0]
    assert "max/avg 1.000" in printed(render_parts(idle))


def test_the_plan_beside_the_others_as_promised_text():
    check_golden("versus.txt", printed(render_versus(coarse_plan(), others())))


def test_ratios_are_of_training_volumes_and_over_limit_rows_are_marked():
    table = versus_table(coarse_plan(), others()).set_index("placement")
    ours = coarse_plan().metrics.training_volume_bytes
    assert table.loc["data parallelism", "x this plan"] == pytest.approx(60 * MIB / ours)
    assert table.loc["filter-wise incremental", "x this plan"] == pytest.approx(2 * 97 * MIB / ours)
    assert table["limit"].tolist() == ["met", "no result", "over", "met", ""]


def test_only_a_baseline_within_the_limit_is_said_to_be_better():
    copying = "data parallelism moves less: 60.0 MiB per iteration instead of 195.0"
    assert better_lines(coarse_plan(), others()) == [
        "filter-wise incremental (incremental) meets the limit and moves less: 97.0 MiB forward instead of 97.5",
        copying,
    ]
    assert better_lines(coarse_plan(), [row("layer-wise", 3, 97.6), others()[1], others()[2]]) == [copying]
    assert better_lines(fine_plan(), []) == []


def test_a_plan_that_moves_nothing_has_no_ratios():
    single = plan([layer("a", [(0, 4)])], 1)
    assert versus_table(single, [row("layer-wise", 1, 0)])["x this plan"].isna().all()
    assert "nan" not in printed(render_versus(single, []))
