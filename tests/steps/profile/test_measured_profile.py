"""Measured profiles: the arithmetic with made-up seconds, and odd layers with real ones. No test asserts a time."""

import math
import statistics
from dataclasses import astuple, replace

import pytest
import torch
from profile_models import ODD, SLICED, chain, graph_of
from torch import nn

from hyperplace.errors import UsageError
from hyperplace.steps.profile import measure as module
from hyperplace.steps.profile.measure import measure
from hyperplace.steps.profile.pieces import Unrunnable
from hyperplace.steps.profile.stopwatch import Times
from hyperplace.steps.profile.work import analytic, grown, measured_cost
from hyperplace.values.graph import Rule
from hyperplace.values.profile import Timing, Work

UPDATE_S = 0.25


def weight_size(piece):
    return max((math.prod(leaf.shape) for leaf in piece.leaves if leaf.is_state), default=0)


def passes(size):
    """Return what a row takes forward and backward, in ms; the two do not grow alike."""
    return 10 + size, 20 + 3 * size


@pytest.fixture
def bench(monkeypatch):
    """Make a run of r rows take r times `passes` of the size of its weight, in ms; return what was run."""
    ran = []

    def time_piece(piece, device):
        ran.append(piece)
        rows = piece.leaves[0].shape[0]
        forward, backward = passes(weight_size(piece))
        return Times(Work(rows * forward / 1000, rows * backward / 1000), 5, 0.125)

    monkeypatch.setattr(module, "time_piece", time_piece)
    monkeypatch.setattr(module, "time_update", lambda shapes, device: UPDATE_S if shapes else 0.0)
    return ran


def test_a_filter_costs_the_mean_of_its_share_of_the_whole_and_of_half(bench):
    cost = measure(chain(nn.Conv2d(4, 6, 1), nn.ReLU()), 8)["members.0"]
    whole, half, tail = sum(passes(24)), sum(passes(12)), sum(passes(0))
    us = 1000 * 8
    assert cost.tail_work == pytest.approx(tail / 6 * us)
    assert cost.filter_work == pytest.approx(((whole / 6 + half / 3) / 2 + tail / 6) * us + UPDATE_S / 6 * 1e6)
    kernel = (whole / 24 + half / 12 + half / 12) / 3
    assert cost.kernel_work == pytest.approx(kernel * us + UPDATE_S / 24 * 1e6)


@pytest.mark.parametrize(("name", "number"), [("forward", 0), ("backward", 1)])
def test_each_pass_has_its_own_mean(bench, name, number):
    cost = measure(chain(nn.Conv2d(4, 6, 1), nn.ReLU()), 8)["members.0"]
    whole, half, tail = (passes(size)[number] * 1000 * 8 for size in (24, 12, 0))
    assert getattr(cost.tail, name) == pytest.approx(tail / 6)
    assert getattr(cost.filter, name) == pytest.approx((whole / 6 + half / 3) / 2 + tail / 6)
    assert getattr(cost.kernel, name) == pytest.approx((whole / 24 + half / 12 + half / 12) / 3)


def test_the_update_does_not_grow_with_the_batch(bench):
    for batch in (8, 64):
        cost = measure(chain(nn.Conv2d(4, 6, 1), nn.ReLU()), batch)["members.0"]
        updates = (cost.filter.update, cost.kernel.update, cost.tail.update)
        assert updates == (pytest.approx(UPDATE_S / 6 * 1e6), pytest.approx(UPDATE_S / 24 * 1e6), 0)


def test_rounds_make_one_disturbed_layer_cost_what_it_costs_in_the_others(monkeypatch):
    graph, pace = chain(nn.Conv2d(4, 6, 1), nn.ReLU(), nn.Conv2d(6, 8, 1)), {"round": 0}
    speeds = ((9.0, 1.0), (1.0, 1.0), (1.1, 7.0))  # of every round, for the first layer and for the second

    def time_piece(piece, device):
        layer = 0 if weight_size(piece) in (24, 12) else 1
        seconds = speeds[pace["round"]][layer]
        return Times(Work(seconds, 2 * seconds), 5, 0.1 * seconds)

    def next_round(done, to_do, name):
        pace["round"] = done // len(graph.layers)
        assert to_do == 3 * len(graph.layers)

    monkeypatch.setattr(module, "time_piece", time_piece)
    monkeypatch.setattr(module, "time_update", lambda shapes, device: UPDATE_S)
    found = measure(graph, 8, rounds=3, on_layer=next_round)
    first, second = (found[name].timing for name in ("members.0", "members.2"))
    assert (first.anchor_s, second.anchor_s) == (Work(1.1, 2.2), Work(1.0, 2.0))
    assert (first.repeats, first.spread, first.update_s) == (15, pytest.approx(0.9), UPDATE_S)
    assert found["members.0"] == measured_cost(graph.layers[1], first, 8)


def test_a_layer_that_cannot_run_is_estimated_after_any_number_of_rounds(monkeypatch):
    def refuses(piece, device):
        raise Unrunnable("no")

    monkeypatch.setattr(module, "time_piece", refuses)
    assert measure(chain(nn.Conv2d(4, 6, 1)), 8, rounds=3)["members.0"].note.startswith("not run (no)")
    with pytest.raises(UsageError, match="rounds 0 is less than 1"):
        measure(chain(nn.Conv2d(4, 6, 1)), 8, rounds=0)


def test_the_timing_says_what_was_run(bench):
    timing = measure(chain(nn.Conv2d(4, 6, 1), nn.ReLU()), 20)["members.0"].timing
    assert (timing.rows, timing.repeats, timing.spread, timing.update_s) == (16, 5, 0.125, UPDATE_S)
    assert astuple(timing.anchor_s) == (pytest.approx(16 * 0.034), pytest.approx(16 * 0.092), 0)
    assert astuple(timing.tail_s) == (pytest.approx(16 * 0.010), pytest.approx(16 * 0.020), 0)
    assert astuple(timing.half_filters_s) == (pytest.approx(16 * 0.022), pytest.approx(16 * 0.056), 0)
    assert timing.half_channels_s == timing.half_filters_s


def timed(whole_s, half_s):
    return Timing(16, 5, Work(whole_s), Work(), 0.0, Work(), Work(), Work(half_s), 0.0)


def test_what_fewer_rows_do_not_save_is_fixed():
    """A pass that takes 3 s and 1 s a row: 19 s with 16 rows, of which 3 are fixed, 35 s with 32, 67 s with 64."""
    for batch, seconds in ((16, 19), (32, 35), (64, 67)):
        times, half = grown(timed(19.0, 11.0), batch)
        assert 19 * times == pytest.approx(seconds)
        assert seconds * half == pytest.approx(3 + batch / 2)
    layer = chain(nn.Conv2d(4, 4, 1, groups=4)).layers[1]
    assert measured_cost(layer, timed(19.0, 11.0), 32).filter_work * 4 == pytest.approx(35e6)


@pytest.mark.parametrize(("half_s", "times"), [(4.0, 2.0), (8.0, 2.0), (16.0, 1.0), (40.0, 1.0), (0.0, 2.0)])
def test_more_rows_never_take_less(half_s, times):
    assert grown(timed(16.0, half_s), 32)[0] == times


def test_a_grouped_layer_is_halved_by_groups(bench):
    cost = measure(chain(nn.Conv2d(6, 9, 1, groups=3), shape=(2, 6, 4, 4)), 2)["members.0"]
    whole, one_group, half_channels = (sum(passes(size)) for size in (18, 6, 9))
    update = UPDATE_S * 1e6
    assert cost.filter_work == pytest.approx((whole / 9 + one_group / 3) / 2 * 2000 + update / 9)
    kernel = (whole / 18 + one_group / 6 + half_channels / 9) / 3
    assert cost.kernel_work == pytest.approx(kernel * 2000 + update / 18)


def test_what_does_not_sum_over_channels_is_shared_out_evenly(bench):
    cost = measure(chain(nn.Conv2d(4, 4, 1, groups=4)), 2)["members.0"]
    assert cost.filter_work == pytest.approx(sum(passes(4)) / 4 * 2000 + UPDATE_S / 4 * 1e6)
    assert cost.kernel_work == cost.tail_work == cost.timing.half_filters_s.total == 0


def test_inputs_cost_nothing(bench):
    cost = measure(chain(nn.Conv2d(4, 6, 1)), 2).layers[0]
    assert (cost.filter_work, cost.kernel_work, cost.tail_work, cost.timing) == (0, 0, 0, None)


def test_equal_pieces_are_run_once(bench):
    pair = (nn.Conv2d(4, 4, 1), nn.ReLU(), nn.Conv2d(4, 4, 1), nn.ReLU())
    profile = measure(chain(nn.Conv2d(4, 4, 1), *pair, nn.MaxPool2d(2)), 8)
    # The first convolution wants no gradient of the model's input, the last has another tail.
    # Of each the whole, its halves (the last two share all but their tails) and half its rows.
    assert len(bench) == len(set(bench)) == (3 + 1) + (3 + 1) + 2 + 2
    assert profile["members.1"].timing.anchor_s == profile["members.3"].timing.anchor_s


@pytest.mark.parametrize(
    ("layer", "shape", "rows"),
    [
        (nn.Conv2d(64, 64, 3, padding=1, device="meta"), (2, 64, 224, 224), 1),
        (nn.Conv2d(64, 64, 3, padding=1, device="meta"), (2, 64, 8, 8), 64),
        (nn.Linear(25088, 4096, device="meta"), (2, 25088), 32),
        (nn.Linear(8, 8, device="meta"), (2, 8), 64),
        (nn.MaxPool2d(2), (2, 64, 112, 112), 8),
        (nn.Softmax(1), (2, 8), 2),
    ],
)
def test_heavy_layers_run_with_few_rows_and_whole_ones_with_those_captured(bench, layer, shape, rows):
    assert measure(chain(layer, shape=shape), 100).layers[1].timing.rows == rows


def failing(monkeypatch, names, graph):
    """Let the anchors of the named layers fail, and every other run take a millisecond."""
    ops = {graph[name].calls[0].op for name in names}

    def time_piece(piece, device):
        if piece.calls[0].op in ops:
            raise Unrunnable("no such luck")
        return Times(Work(0.0005, 0.0005), 3, 0.0)

    monkeypatch.setattr(module, "time_piece", time_piece)
    monkeypatch.setattr(module, "time_update", lambda shapes, device: 0.0)


def test_a_layer_that_does_not_run_is_estimated_at_the_pace_of_the_others(monkeypatch):
    graph = graph_of(
        lambda m, x: m[2](m[1](m[0](x)).flatten(1)), nn.Conv2d(4, 6, 3), nn.Conv2d(6, 5, 1), nn.Linear(80, 3)
    )
    failing(monkeypatch, ["members.2"], graph)
    profile = measure(graph, 4)
    convs = [graph["members.0"], graph["members.1"]]
    pace = statistics.median(profile[conv.name].filter_work * conv.num_filters / conv.macs for conv in convs)
    cost = profile["members.2"]
    assert cost.filter_work * 3 == pytest.approx(pace * 240)
    assert cost.kernel_work * 240 == pytest.approx(pace * 240)
    assert cost.filter == analytic(cost.filter_work)
    assert cost.note == "not run (no such luck); estimated from its multiply-adds"
    assert cost.timing is None


def test_where_nothing_runs_there_is_still_an_estimate(monkeypatch):
    graph = chain(nn.Conv2d(4, 6, 3))
    failing(monkeypatch, ["members.0"], graph)
    assert measure(graph, 4)["members.0"].filter_work > 0


def test_only_aten_operations_are_run():
    graph = chain(nn.Conv2d(4, 6, 3))
    source, layer = graph.layers
    odd = replace(layer, calls=(replace(layer.calls[0], op="os.system.default"),))
    cost = measure(replace(graph, layers=(source, odd)), 2, threads=1)["members.0"]
    assert cost.note.startswith("not run (os.system.default is not an ATen operation)")


@pytest.mark.parametrize("name", ODD)
def test_every_odd_layer_runs(name):
    graph = ODD[name]()
    profile = measure(graph, 4, threads=1)
    for layer in graph.layers:
        cost = profile[layer.name]
        assert cost.note == ""
        assert (cost.filter_work > 0) == (layer.rule is not Rule.INPUT)
        assert (cost.kernel_work > 0) == layer.sums_channels


@pytest.mark.parametrize("name", SLICED)
def test_every_summing_layer_is_sliced(name):
    cost = measure(SLICED[name](), 4, threads=1).layers[1]
    assert cost.note == ""
    assert cost.timing.half_filters_s.total > 0
    assert cost.timing.half_channels_s.total > 0


def test_what_does_not_run_with_other_rows_runs_with_those_captured():
    graph = graph_of(lambda m, x: m[0](x) + torch.ones(2, 3, 6, 6, device=x.device), nn.Conv2d(4, 3, 1))
    cost = measure(graph, 16, threads=1)["members.0"]
    assert (cost.note, cost.timing.rows) == ("", 2)


def test_lstms_keep_the_captured_rows():
    # aten.lstm does not check its state's rows: with other rows it wrote beyond its memory and killed the process.
    assert measure(ODD["lstm"](), 64, threads=1)["members.0"].timing.rows == 2


def test_progress_and_machine():
    heard = []
    graph = chain(nn.Conv2d(4, 6, 3), nn.Conv2d(6, 2, 3))
    profile = measure(graph, 2, threads=1, on_layer=lambda *news: heard.append(news))
    assert heard == [(n, 3, layer.name) for n, layer in enumerate(graph.layers, 1)]
    assert profile.machine.endswith(f", 1 thread, cpu, torch {torch.__version__}")
    assert (profile.costs, profile.unit, profile.batch) == ("measured", "us", 2)


def test_the_caller_finds_torch_as_it_was():
    graph = chain(nn.Conv2d(4, 6, 3), nn.Dropout())
    threads, state = torch.get_num_threads(), torch.get_rng_state()
    with torch.no_grad():
        profile = measure(graph, 2, threads=threads + 1)
        assert not torch.is_grad_enabled()
    assert profile["members.0"].timing.anchor_s.backward > 0
    assert torch.get_num_threads() == threads
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch": 0}, "batch 0 is less than 1; give the rows of one mini-batch"),
        ({"batch": 1, "threads": 0}, "threads 0 is less than 1; give how many threads a layer may use"),
        ({"batch": 1, "device": "toaster"}, "device 'toaster' cannot be used: "),
        ({"batch": 1, "device": "meta"}, "device 'meta' cannot be used: "),
    ],
)
def test_options_that_cannot_work(options, message):
    with pytest.raises(UsageError) as caught:
        measure(chain(nn.Conv2d(4, 6, 3)), **options)
    assert str(caught.value).startswith(message)
