from dataclasses import fields

import pytest
from report_examples import (
    MIB,
    check_golden,
    coarse_plan,
    fine_plan,
    hybrid_plan,
    layer,
    plan,
    plan_others,
    printed_section,
    row,
)

from hyperplace.report.plan import (
    better_lines,
    memory_section,
    parts_section,
    parts_table,
    versus_section,
    versus_table,
)
from hyperplace.values.memory import PartMemory, RunMemory


def test_a_row_per_part_with_its_own_figures():
    table = parts_table(coarse_plan())
    assert list(table["part"]) == [0, 1, 2]
    assert list(table["work %"]) == pytest.approx([30, 35, 35])
    assert list(table["work MFLOP"]) == [90, 105, 105]
    assert list(table["parameters MiB"]) == [1, 2, 3]
    assert list(table["sent MiB"]) == pytest.approx([97.5, 1000 / MIB, 0])
    assert sum(table["received MiB"]) == pytest.approx(sum(table["sent MiB"]))
    assert (list(table["messages out"]), list(table["messages in"])) == ([3, 1, 0], [0, 2, 2])


def test_parts_of_a_plan_that_splits_rows_send_and_receive_all_that_training_moves():
    found = hybrid_plan()
    table = parts_table(found)
    assert sum(table["sent MiB"]) == pytest.approx(found.metrics.training_volume_bytes / MIB)
    for replica in found.replicas:
        assert table["sent MiB"][replica.part] >= replica.parameter_bytes / MIB
        assert table["received MiB"][replica.owner] >= replica.parameter_bytes / MIB
    assert "in a training iteration" in printed_section(parts_section(found), 100)


def test_the_parts_as_promised_text():
    check_golden("parts-coarse.txt", printed_section(parts_section(coarse_plan()), 100))
    check_golden("parts-narrow.txt", printed_section(parts_section(coarse_plan()), 70))


def test_a_part_over_the_limit_is_named():
    text = printed_section(parts_section(fine_plan()))
    assert "max/avg 1.300, over the limit of 1.1: part 0 is too heavy" in text
    assert "within the limit of 1.1" in printed_section(parts_section(coarse_plan()))


def test_no_work_at_all():
    idle = plan([layer("a", [(0, 4)])], 2, work=[0, 0])
    assert parts_table(idle)["work %"] == (0, 0)
    assert "max/avg 1.000" in printed_section(parts_section(idle))


def test_the_plan_beside_the_others_as_promised_text():
    check_golden("versus.txt", printed_section(versus_section(coarse_plan(), plan_others())))


def test_ratios_are_of_training_volumes_and_over_limit_rows_are_marked():
    table = versus_table(coarse_plan(), plan_others())
    ratio = dict(zip(table["placement"], table["x this plan"], strict=True))
    ours = coarse_plan().metrics.training_volume_bytes
    assert ratio["data parallelism"] == pytest.approx(60 * MIB / ours)
    assert ratio["filter-wise incremental"] == pytest.approx(2 * 97 * MIB / ours)
    assert list(table["limit"]) == ["met", "no result", "over", "met", ""]


def test_only_a_baseline_within_the_limit_is_said_to_be_better():
    copying = "data parallelism moves less: 60.0 MiB per iteration instead of 195.0"
    assert better_lines(coarse_plan(), plan_others()) == [
        "filter-wise incremental (incremental) meets the limit and moves less: 97.0 MiB forward instead of 97.5",
        copying,
    ]
    assert better_lines(coarse_plan(), [row("layer-wise", 3, 97.6), plan_others()[1], plan_others()[2]]) == [copying]
    assert better_lines(fine_plan(), []) == []


def test_a_plan_that_moves_nothing_has_no_ratios():
    single = plan([layer("a", [(0, 4)])], 1)
    assert set(versus_table(single, [row("layer-wise", 1, 0)])["x this plan"]) == {None}
    assert "None" not in printed_section(versus_section(single, []))


def test_memory_names_every_part_of_the_peak_and_adds_up():
    parts = (PartMemory(10, 10, 20, 30, 400, 50, 60), PartMemory(1, 2, 3, 4, 5, 6, 7))
    table, note = memory_section(RunMemory(parts, 4, "adam")).blocks
    columns = {column.name: column.values for column in table.columns}
    assert set(columns) == {"part", "peak", *(one.name for one in fields(PartMemory))}
    for number in (0, 1):
        held = [values[number] for name, values in columns.items() if name not in ("part", "peak")]
        assert sum(held) == pytest.approx(columns["peak"][number])
    assert note.text == "memory of every part at its peak, trained with 4 mini-batches in flight and adam"
