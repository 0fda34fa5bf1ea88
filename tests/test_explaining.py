"""What an explanation says of other places is what a plan made there moves and takes."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from hyperplace import api
from hyperplace.errors import UsageError
from hyperplace.report import explanation_document, plain_text
from hyperplace.steps.place import place
from hyperplace.values.cluster import Cluster, Device, Host
from hyperplace.values.layout import Layout, Plane
from hyperplace.values.pins import Pins
from hyperplace.values.plan import Settings

BATCH = 4


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Conv2d(2, 4, 3, padding=1), nn.Conv2d(4, 4, 3, padding=1)
        self.c, self.d = nn.Conv2d(4, 4, 3, padding=1, groups=2), nn.Conv2d(4, 2, 1)

    def forward(self, x):
        y = self.a(x)
        return self.d(self.c(self.b(y) + y))


def made(parts_of, grain="coarse", pins=None, imbalance=0.2):
    """Return a plan with the filters of every layer on these parts, and what it was made of."""
    graph = api.capture(Residual(), torch.zeros(BATCH, 2, 8, 8))
    costs = api.profile(graph, costs="flops", batch=BATCH)
    settings = Settings(
        model="m", k=3, imbalance=imbalance, grain=grain, partitioner="auto", costs="flops", batch=BATCH
    )
    settings = replace(settings, pins=pins or Pins())
    planes = {
        layer.name: Plane.by_lines(np.resize(parts_of.get(layer.name, [0]), layer.num_filters), BATCH)
        for layer in graph.layers
    }
    return graph, costs, place(graph, costs, Layout(planes, 3), settings), planes


def planned_anew(graph, costs, plan, planes, moved, part):
    there = {name: Plane.by_lines(np.full(graph[name].num_filters, part), BATCH) for name in moved}
    return place(graph, costs, Layout(planes | there, 3), replace(plan.settings, pins=Pins()))


WHERE = {"a": [0], "b": [0], "add": [0], "c": [1, 1, 2, 2], "d": [2]}


@pytest.mark.parametrize("grain", ["coarse", "hybrid"])
@pytest.mark.parametrize(("layer", "tied"), [("a", {"a", "b", "add"}), ("c", {"c"}), ("d", {"d"}), ("x", {"x"})])
def test_every_other_place_costs_what_a_plan_made_there_does(grain, layer, tied):
    graph, costs, plan, planes = made(WHERE, grain)
    found = api.explain(plan, layer)
    assert {layer, *found.tied} == tied
    assert found.here.plan == plan
    elsewhere = {f"all on part {part}": part for part in range(3) if set(WHERE.get(layer, [0])) != {part}}
    assert {one.name for one in found.others} == set(elsewhere)
    for one in found.others:
        anew = planned_anew(graph, costs, plan, planes, tied, elsewhere[one.name])
        assert one.plan.metrics.training_volume_bytes == anew.metrics.training_volume_bytes
        assert one.plan.metrics.work_per_part == anew.metrics.work_per_part
        assert one.plan.transfers == anew.transfers
        assert bool(one.breaks) == (not anew.metrics.feasible)
    ranks = [(bool(one.breaks), one.plan.metrics.training_volume_bytes) for one in found.others]
    assert ranks == sorted(ranks)


def test_what_a_layer_moves_is_counted_from_the_messages():
    _, _, plan, _ = made(WHERE)
    found = api.explain(plan, "c")
    map_bytes = BATCH * 8 * 8 * 4
    # Both halves of c lie where add does not: each gets the two channels its group reads, and d the two it lacks.
    assert found.received_bytes == 4 * map_bytes
    assert found.sent_bytes == 2 * map_bytes
    assert dict(found.beside) == {1: (), 2: ("d",)}


def test_a_fine_layer_is_moved_with_its_kernels():
    graph = api.capture(Residual(), torch.zeros(BATCH, 2, 8, 8))
    costs = api.profile(graph, costs="flops", batch=BATCH)
    settings = Settings(
        model="m", k=2, imbalance=1.0, grain="fine", partitioner="random", costs="flops", batch=BATCH, seed=3
    )
    plan = api.place_graph(graph, costs, settings)
    assert plan.reductions
    for name in ("c", "d"):
        for one in api.explain(plan, name).others:
            layer = next(layer for layer in one.plan.layers if layer.name == name)
            assert layer.parts == {int(one.name[-1])}
            assert not any(message.layer == name for message in one.plan.reductions)


def test_with_a_cluster_places_are_ranked_by_the_simulated_seconds_and_memory_is_looked_at():
    graph, costs, plan, planes = made(WHERE)
    limits = (None, None, 20_000)
    cluster = Cluster(
        tuple(Host(f"h{n}", (Device(flops_per_s=1e9, memory_bytes=limits[n]),), 1e7, 1e7) for n in range(3))
    )
    flow = api.FlowWish(in_flight=2)
    found = api.explain(plan, "a", api.judge_on(graph, costs, cluster, flow))
    seconds = {}
    for part in (1, 2):
        anew = planned_anew(graph, costs, plan, planes, {"a", "b", "add"}, part)
        seconds[f"all on part {part}"] = api.forecast(graph, costs, anew, cluster, flow).seconds
    assert {one.name: one.seconds for one in found.others} == pytest.approx(seconds)
    assert "memory" in {one.name: one for one in found.others}["all on part 2"].breaks[0]
    assert not {one.name: one for one in found.others}["all on part 1"].breaks
    assert found.here.seconds == api.forecast(graph, costs, plan, cluster, flow).seconds
    text = plain_text(explanation_document(found), 140)
    assert "mini-batch" in text
    assert "lacks" in text


def test_a_place_that_breaks_a_pin_says_so_also_through_a_tie():
    _, _, plan, _ = made(WHERE, pins=Pins.of({"b": 0}), imbalance=2.0)
    for layer in ("a", "b"):
        found = api.explain(plan, layer)
        assert not found.here.breaks
        for one in found.others:
            assert one.breaks == (f"b is on parts [{one.name[-1]}], but pinned to part 0",)
        text = plain_text(explanation_document(found), 120)
        assert "by its pins: b=0" in text or "it is tied to b, which is pinned: b=0" in text


def test_the_document_names_the_next_best_place_and_what_breaks_the_balance():
    _, _, plan, _ = made(WHERE, imbalance=1.5)
    text = plain_text(explanation_document(api.explain(plan, "d")), 120)
    assert "is the next best place" in text
    _, _, plan, _ = made(WHERE, imbalance=0.0)
    assert "is over the limit of 1" in plain_text(explanation_document(api.explain(plan, "c")), 160)


def test_an_unknown_layer_is_refused_with_the_closest_name():
    _, _, plan, _ = made(WHERE)
    with pytest.raises(UsageError, match="no layer 'ad'; did you mean 'add'"):
        api.explain(plan, "ad")
