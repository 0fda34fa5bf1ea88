"""The stopwatch with a clock we wind by hand."""

import pytest
from profile_models import chain, residual
from torch import nn

from hyperplace.steps.profile import stopwatch
from hyperplace.steps.profile.pieces import anchor_piece, tail_piece
from hyperplace.steps.profile.stopwatch import time_piece, time_update
from hyperplace.values.profile import Work


def wind(monkeypatch, *intervals):
    """Let the clock stop and start so that the timed intervals are these, then all of one second."""
    ticks = iter(intervals)
    clock = {"now": 0.0, "running": False}

    def now(device):
        if clock["running"]:
            clock["now"] += next(ticks, 1.0)
        clock["running"] = not clock["running"]
        return clock["now"]

    monkeypatch.setattr(stopwatch, "now", now)


def conv_piece():
    graph = chain(nn.Conv2d(4, 6, 1), nn.Conv2d(6, 4, 1))
    return anchor_piece(graph, graph.layers[2], 2)


def test_the_warm_up_is_dropped_and_medians_are_taken_apart(monkeypatch):
    wind(monkeypatch, 9, 9, 0.01, 0.07, 0.02, 0.05, 0.03, 0.03)
    times = time_piece(conv_piece(), "cpu")
    assert (times.passes_s.forward, times.passes_s.backward) == (pytest.approx(0.02), pytest.approx(0.05))
    assert times.repeats == 3
    assert times.spread == pytest.approx((0.08 - 0.06) / 0.07)


@pytest.mark.parametrize(
    ("faults", "warm_ups"), [((5000, 3000, 50, 9000), 3), ((0,), 1), ((9000,) * 30, stopwatch.MOST_WARM_UPS)]
)
def test_runs_that_still_take_new_memory_are_not_timed(monkeypatch, faults, warm_ups):
    """A page that comes anew takes as long as much arithmetic; the last of the three takes some in every run."""
    pages = iter([0, *(page for fault in faults for page in (fault, 0))])
    monkeypatch.setattr(stopwatch, "num_faults", lambda: next(pages))
    wind(monkeypatch, *[0.001] * 2 * warm_ups, *[0.01] * 100)
    times = time_piece(conv_piece(), "cpu")
    assert (times.passes_s.forward, times.passes_s.backward) == (pytest.approx(0.01), pytest.approx(0.01))
    assert times.spread == pytest.approx(0)


def test_a_long_run_is_warmed_up_once_whatever_memory_it_takes(monkeypatch):
    pages = iter(range(0, 10**6, 5000))
    monkeypatch.setattr(stopwatch, "num_faults", lambda: next(pages))
    wind(monkeypatch, 9, 9, 3, 4, 3, 4)
    assert time_piece(conv_piece(), "cpu").passes_s == Work(3, 4)


@pytest.mark.parametrize(("seconds", "repeats"), [(1e-5, 20), (1e-3, 10), (0.02, 3), (0.04, 3), (0.06, 2), (5.0, 2)])
def test_short_runs_are_repeated_more_often(monkeypatch, seconds, repeats):
    wind(monkeypatch, *[seconds] * 100)
    assert time_piece(conv_piece(), "cpu").repeats == repeats


def test_an_update_is_timed_as_one(monkeypatch):
    wind(monkeypatch, 9, 0.03, 0.01, 0.02)
    assert time_update(((4, 3), (4,)), "cpu") == pytest.approx(0.02)
    assert time_update((), "cpu") == 0


def test_in_place_operations_leave_the_made_up_tensors_alone():
    graph = residual()
    (layer,) = [layer for layer in graph.layers if layer.kind == "add"]
    assert any(call.op.startswith(("aten.add_.", "aten.relu_.")) for call in layer.calls)
    for piece in (anchor_piece(graph, layer, 2), tail_piece(graph, layer, 2)):
        assert time_piece(piece, "cpu").passes_s.backward > 0


def test_nobody_waits_for_the_gradient_of_the_models_input():
    graph = chain(nn.Conv2d(4, 4, 1), nn.Conv2d(4, 4, 1))
    first, second = (anchor_piece(graph, layer, 2) for layer in graph.layers[1:])
    assert [leaf.learns for leaf in first.leaves] == [False, True, True]
    assert [leaf.learns for leaf in second.leaves] == [True, True, True]
    assert first.calls == second.calls
