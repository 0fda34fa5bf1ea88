import sys
from dataclasses import replace

import pytest
from report_examples import coarse_plan, comparison, fine_plan, hybrid_plan, layer, long_plan, plan, png, row, wide_plan

from hyperplace.report.curves import comparison_figure
from hyperplace.report.planfigure import plan_figure


@pytest.mark.parametrize("k", [1, 4, 128])
def test_a_plan_of_any_size_is_drawn(k):
    even = plan([layer("a", [(part, 3) for part in range(k)]), layer("b", [(0, 2)])], k)
    assert png(plan_figure(even)).startswith(b"\x89PNG")


@pytest.mark.parametrize("make", [coarse_plan, fine_plan, hybrid_plan, long_plan, wide_plan])
def test_every_kind_of_plan_is_drawn(make):
    assert png(plan_figure(make())).startswith(b"\x89PNG")


def test_the_figure_shows_the_plans_numbers():
    lines, work, received = plan_figure(fine_plan()).axes
    assert {text.get_text() for text in lines.texts} >= {"2.0", "5.0"}
    assert [bar.get_height() for bar in work.patches] == [130, 70]
    assert [bar.get_hatch() for bar in work.patches] == ["///", None]
    assert [bar.get_height() for bar in received.patches] == [5, 2]


def test_a_comparison_is_drawn_with_over_limit_rows_hollow():
    figure = comparison_figure(comparison())
    assert png(figure).startswith(b"\x89PNG")
    volume, _ = figure.axes
    hollow = [line for line in volume.lines if line.get_markerfacecolor() == "white"]
    assert [list(line.get_xdata()) for line in hollow] == [[4], [4]]  # one by its own limit, one by the others'


@pytest.mark.parametrize("rows", [(), (row("layer-wise", 1, 0),), (row("layer-wise", 2, 0),)])
def test_comparisons_of_next_to_nothing_are_drawn(rows):
    assert png(comparison_figure(replace(comparison(), rows=rows))).startswith(b"\x89PNG")


def test_drawing_leaves_pyplot_alone():
    plan_figure(coarse_plan())
    comparison_figure(comparison())
    assert "matplotlib.pyplot" not in sys.modules


def test_importing_the_report_loads_nothing_heavy():
    import subprocess

    code = "import sys, hyperplace.report; print({'rich', 'matplotlib', 'torch'} & set(sys.modules))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert ran.stdout == "set()\n"
