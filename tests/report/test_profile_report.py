"""The table of a profile: its columns are passes that add up to the work, for measured and for counted costs."""

import math

import pytest
import torch
from rich.console import Console
from torch import nn

from hyperplace.report.profile import profile_table, render_profile
from hyperplace.steps.capture import capture
from hyperplace.steps.profile.flops import count_flops
from hyperplace.values.profile import LayerCost, Profile, Timing, Work

TIMING = Timing(2, 5, Work(0.002, 0.004), Work(0.001, 0.001), 0.003, Work(0.0015, 0.003), Work(), 0.25)
FILTER, TAIL = Work(1500.0, 4000.0, 500.0), Work(250.0, 750.0)  # us of one filter of four


@pytest.fixture(scope="module")
def graph():
    return capture(nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Conv2d(4, 2, 3)), torch.empty(2, 3, 8, 8))


@pytest.fixture
def measured(graph):
    x, first, second = (layer.name for layer in graph.layers)
    estimated = LayerCost(second, Work(1000.0, 2000.0), note="not run (no); estimated")
    layers = (LayerCost(x, Work()), LayerCost(first, FILTER, tail=TAIL, timing=TIMING), estimated)
    return Profile("measured", "us", 2, layers, "a machine")


def test_measured_passes_add_up_to_the_work_of_all_filters(graph, measured):
    table = profile_table(graph, measured)
    passes = [f"{name} ms" for name in ("forward", "backward", "update", "trailing")]
    assert table.loc[0, ["work ms", *passes]].tolist() == [24, 5, 13, 2, 4]
    assert table.loc[1, ["work ms", *passes]].tolist() == [6, 2, 4, 0, 0]


def test_what_was_run_is_beside_it(graph, measured):
    table = profile_table(graph, measured)
    assert table.loc[0, ["rows", "half filters %", "spread %"]].tolist() == pytest.approx([2, 75, 25])
    assert math.isnan(table.loc[0, "half channels %"])
    assert table.loc[1, ["half filters %", "spread %"]].isna().all()


def test_counted_passes_are_a_third_and_two(graph):
    table = profile_table(graph, count_flops(graph, 100_000))
    assert table["forward GFLOP"].tolist() == pytest.approx((table["work GFLOP"] / 3).tolist())
    assert table["backward GFLOP"].tolist() == pytest.approx((2 * table["forward GFLOP"]).tolist())
    assert not table[["update GFLOP", "trailing GFLOP"]].any(axis=None)
    assert "rows" not in table


def test_the_terminal_shows_passes_and_notes(graph, measured, capsys):
    Console(width=100, highlight=False).print(render_profile(graph, measured))
    text = capsys.readouterr().out
    for word in ("forward", "backward", "update", "trailing", "2: not run (no); estimated"):
        assert word in text
