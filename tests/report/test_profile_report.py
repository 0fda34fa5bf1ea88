"""The table of a profile: its columns are passes that add up to the work, for measured and for counted costs."""

import pytest
import torch
from torch import nn

from hyperplace.report import plain_text, profile_document
from hyperplace.report.profile import profile_table
from hyperplace.steps.capture import capture
from hyperplace.steps.profile.work import count_flops
from hyperplace.values.profile import LayerCost, Profile, Timing, Work

TIMING = Timing(2, 5, Work(0.002, 0.004), Work(0.001, 0.001), 0.003, Work(0.0015, 0.003), Work(), Work(), 0.25)
PASSES = ("forward", "backward", "update", "trailing")
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
    first, second = zip(*(table[f"{name} ms"] for name in ("work", *PASSES)), strict=True)
    assert first == (24, 5, 13, 2, 4)
    assert second == (6, 2, 4, 0, 0)


def test_what_was_run_is_beside_it(graph, measured):
    table = profile_table(graph, measured)
    assert [table[name][0] for name in ("rows", "half filters %", "spread %")] == pytest.approx([2, 75, 25])
    assert table["half channels %"][0] is None
    assert [table[name][1] for name in ("rows", "half filters %", "spread %")] == [None] * 3


def test_counted_passes_are_a_third_and_two(graph):
    table = profile_table(graph, count_flops(graph, 100_000))
    assert table["forward GFLOP"] == pytest.approx([work / 3 for work in table["work GFLOP"]])
    assert table["backward GFLOP"] == pytest.approx([2 * work for work in table["forward GFLOP"]])
    assert not any(table["update GFLOP"] + table["trailing GFLOP"])
    assert "rows" not in table.headings


def test_the_terminal_shows_passes_and_notes(graph, measured):
    text = plain_text(profile_document(graph, measured), 100)
    for word in (*PASSES, "2: not run (no); estimated"):
        assert word in text
