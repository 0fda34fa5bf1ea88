import pytest
from report_examples import (
    MIB,
    check_golden,
    coarse_plan,
    fine_plan,
    hybrid_plan,
    layer,
    long_plan,
    plan,
    printed,
    wide_plan,
)

from hyperplace.report.layermap import fitted, layer_map, part_list
from hyperplace.report.maplines import Run, map_lines
from hyperplace.report.palette import part_color
from hyperplace.values.plan import Shard

PLANS = {"coarse": coarse_plan, "fine": fine_plan, "hybrid": hybrid_plan, "long": long_plan, "wide": wide_plan}


@pytest.mark.parametrize("name", PLANS)
def test_the_map_is_the_promised_text(name):
    check_golden(f"map-{name}.txt", printed(layer_map(PLANS[name]())))


@pytest.mark.parametrize("name", PLANS)
@pytest.mark.parametrize("width", [40, 60, 80, 200])
def test_no_line_is_wider_than_asked(name, width):
    text = layer_map(PLANS[name](), width).plain
    assert max(len(line) for line in text.splitlines()) <= max(width, 60)


def test_the_map_says_the_same_with_and_without_colour():
    import io

    from rich.console import Console

    file = io.StringIO()
    Console(file=file, width=80, color_system="truecolor", force_terminal=True).print(layer_map(coarse_plan()))
    assert "\x1b[" in file.getvalue()
    plain = "".join(piece.split("m", 1)[-1] for piece in ("m" + file.getvalue()).split("\x1b["))
    assert plain == layer_map(coarse_plan()).plain + "\n"


def test_one_part_moves_nothing():
    text = layer_map(plan([layer("a", [(0, 4)])], 1)).plain
    assert "0.0 MiB cross" in text
    assert "*" not in text


def test_the_bytes_of_all_lines_are_the_volume():
    for make in PLANS.values():
        lines = map_lines(make())
        moved = sum(line.sent_bytes + line.partial_bytes for line in lines)
        assert moved == make().metrics.judged_bytes


def test_neighbours_on_one_part_share_a_line_that_ends_where_bytes_leave():
    lines = map_lines(long_plan())
    assert [(line.first, line.last, line.num_layers) for line in lines[:3]] == [
        ("stage.0.conv", "stage.4.conv", 5),
        ("stage.5.conv", "stage.19.conv", 15),
        ("stage.20.conv", "stage.48.conv", 29),
    ]
    assert [line.sent_bytes for line in lines] == [MIB, 4 * MIB, 0, 0]
    assert sum(line.num_layers for line in lines) == 50


def test_few_layers_keep_a_line_each():
    layers = [layer(f"conv{i}", [(0, 4)]) for i in range(40)]
    assert len(map_lines(plan(layers, 1))) == 40


def test_kernels_are_shown_where_another_part_computes_even_if_every_part_computes_as_much_as_it_owns():
    swapped = (Shard(0, ((4, 8),), ((0, 4),), (0, 8)), Shard(1, ((0, 4),), ((0, 4),), (0, 8)))
    (line,) = map_lines(plan([layer("a", [(0, 4), (1, 4)], shards=swapped)], 2))
    assert line.kernels == (Run(0, 4 * 4 * 8), Run(1, 4 * 4 * 8))
    (line,) = map_lines(plan([layer("a", [(0, 4), (1, 4)])], 2))
    assert line.kernels == ()


def test_a_bar_fills_its_width_and_no_run_vanishes():
    runs = [Run(0, 510), Run(1, 1), Run(2, 1)]
    for width in (3, 16, 41, 600):
        bar = fitted(runs, width)
        assert sum(run.size for run in bar) == width
        assert [run.part for run in bar] == [0, 1, 2]
    assert fitted([Run(0, 3), Run(1, 3)], 8) == (Run(0, 4), Run(1, 4))
    many = fitted([Run(part, 1) for part in range(100)], 10)
    assert [run.part for run in many] == [5, 15, 25, 35, 45, 55, 65, 75, 85, 95]


def test_parts_the_bar_cannot_show_are_listed():
    assert "on 0-127" in layer_map(wide_plan()).plain
    crowded = plan([layer("a", [(part, 1) for part in range(60)])], 60)
    assert "on 0-59" in layer_map(crowded, 80).plain


def test_lists_of_parts():
    assert part_list([5, 0, 1, 2, 2, 9, 8]) == "0-2 5 8-9"
    assert part_list([]) == ""


@pytest.mark.parametrize("k", [1, 4, 10, 11, 62, 128])
def test_every_part_has_a_colour_of_its_own(k):
    assert len({part_color(part, k) for part in range(k)}) == k
