import sys
from dataclasses import replace

import pytest
from page_examples import placement
from report_examples import coarse_plan, comparison, fine_plan, hybrid_plan, layer, long_plan, plan, png, row, wide_plan

from hyperplace.report.curves import comparison_figure
from hyperplace.report.history import history_figure
from hyperplace.report.maplines import line_edges, map_lines
from hyperplace.report.planfigure import plan_figure
from hyperplace.report.timeline import timeline_figure
from hyperplace.report.titles import log_ticks
from hyperplace.values.derived.messages import crossings
from hyperplace.values.history import History, HistoryRow
from hyperplace.values.timeline import Event, Timeline


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


LONG = "a_model_whose_name_is_$long$_as_of_a_file " * 6


def texts_outside(figure):
    """Return the words of a figure that do not lie within it."""
    from matplotlib.text import Text

    figure.draw_without_rendering()
    width, height = figure.bbox.width, figure.bbox.height
    found = [text for text in figure.findobj(Text) if text.get_text().strip(" 0123456789.,%")]  # ticks go beyond axes
    boxes = [(text.get_text(), text.get_window_extent()) for text in found]
    return [text for text, box in boxes if not (box.x0 >= -1 and box.x1 <= width + 1 and box.y1 <= height + 1)]


def test_no_word_is_cut_off_however_long_names_are():
    named = replace(coarse_plan(), settings=replace(coarse_plan().settings, model=LONG))
    layers = tuple(replace(one, name=f"{LONG}{n}") for n, one in enumerate(named.layers))
    figures = {
        "plan": plan_figure(named),
        "layers": plan_figure(replace(named, layers=layers, transfers=())),
        "comparison": comparison_figure(
            replace(comparison(), model=LONG, rows=tuple(replace(one, model=LONG) for one in comparison().rows))
        ),
        "timeline": timeline_figure(Timeline(2, (Event(0, "forward", LONG, 0, 0.0, 5.0),))),
        "history": history_figure(History(LONG, (HistoryRow(0, "a", 1, 1.0, 0.5, 0.9),))),
    }
    for name, figure in figures.items():
        assert texts_outside(figure) == [], name
    assert "".join(figures["plan"].get_suptitle().split()).startswith("".join(LONG.split())), "nothing is left out"


@pytest.mark.parametrize(
    ("low", "high", "wanted"),
    [
        (0.9, 2000, [1, 10, 100, 1000]),
        (80, 1200, [100, 300, 1000]),
        (90, 600, [100, 200, 500]),
        (210, 480, [300, 400]),
        (100, 104, [100, 101, 102, 103, 104]),
    ],
)
def test_logarithmic_axes_have_ticks_however_little_they_span(low, high, wanted):
    found = log_ticks(low, high)
    assert found == sorted(found)
    assert set(wanted) <= set(found)
    assert len(found) >= 3
    assert all(low <= tick <= high for tick in found)


def test_the_volume_axis_has_numbers():
    volume, _ = comparison_figure(comparison()).axes
    assert len(volume.get_yticklabels()) >= 3
    assert all(label.get_text() for label in volume.get_yticklabels())


def test_arrows_go_from_every_layer_to_those_that_read_it():
    """Of ResNet-50 whole on single parts: lines of joined layers, and skips that go around."""
    made = placement("resnet50").plan
    lines = map_lines(made)
    edges = line_edges(made, lines)
    assert sum(line.num_layers for line in lines) == len(made.layers)
    assert all(source < target < len(lines) for source, target in edges)
    assert sum(edges.values()) == sum(crossings(made.layers, made.settings).values())
    axes = plan_figure(made).axes[0]
    assert len([one for one in axes.patches if type(one).__name__ == "FancyArrowPatch"]) == len(edges)
