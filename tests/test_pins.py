"""Pins are kept exactly, by every search and grain, and nothing that keeps them is better where all can be tried."""

from dataclasses import replace
from functools import cache, partial
from itertools import product

import numpy as np
import pytest
import torch
from torch import nn

import hyperplace
from hyperplace import api, search
from hyperplace.by_time import search as time_search
from hyperplace.errors import BalanceError, HyperplaceError, UsageError
from hyperplace.files.plan import parse_plan, plan_text
from hyperplace.search import fine
from hyperplace.steps.place import place
from hyperplace.steps.symmetric import hybrid_local, local
from hyperplace.values.cluster import Cluster, Device, Host
from hyperplace.values.layout import layout_of, partition_of
from hyperplace.values.partition import Partition, is_feasible, volume_bytes, work_per_part
from hyperplace.values.pins import Pins
from hyperplace.values.plan import Plan, Settings

BATCH = 4


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Conv2d(2, 2, 3, padding=1), nn.Conv2d(2, 2, 3, padding=1), nn.Conv2d(2, 2, 1)

    def forward(self, x):
        y = self.a(x)
        return self.c(self.b(y) + y)


class Depthwise(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Conv2d(2, 3, 3), nn.Conv2d(3, 3, 3, groups=3), nn.Conv2d(3, 2, 1)

    def forward(self, x):
        return self.c(self.b(self.a(x)))


class Chain(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c, self.d = (nn.Conv2d(2, 2, 3, padding=1) for _ in range(4))

    def forward(self, x):
        return self.d(self.c(self.b(self.a(x))))


@cache
def problem(make):
    graph = api.capture(make(), torch.zeros(BATCH, 2, 8, 8))
    return graph, api.profile(graph, costs="flops", batch=BATCH)


def settings(pins, k=2, imbalance=0.3, **more):
    words = {"grain": "coarse", "partitioner": "auto", "blocks": None} | more
    return Settings(model="m", k=k, imbalance=imbalance, costs="flops", batch=BATCH, pins=pins, **words)


PINS = [
    Pins.of({"a": 1}),
    Pins.of({"a": 1, "c": 1}),
    Pins.of(keep_together=[("a", "c")]),
    Pins.of(at_most={"c": 1}),
    Pins.of({"c": 0}, at_most={"a": 1}),
    Pins.of({"a": 0}, [("b", "c")]),
    Pins.of(keep_together=[("a", "b"), ("b", "c")]),
]


@pytest.fixture(autouse=True)
def short_searches(monkeypatch):
    monkeypatch.setattr(local, "search", partial(local.search, num_moves=30_000, num_restarts=4))
    few = partial(hybrid_local.search_modes, num_moves=5000, num_restarts=2)
    monkeypatch.setattr(hybrid_local, "search_modes", few)
    monkeypatch.setattr(fine, "FINE_BLOCKS", (2,))


TIED = {Chain: set(), Residual: {"a", "b", "add"}, Depthwise: {"a", "b"}}


def keeps(make, asked, parts_of):
    """Say whether the pins hold, for ties too, by what the words mean."""
    mates = {name: TIED[make] | {name} if name in TIED[make] else {name} for name in parts_of}
    for layer, part in asked.parts:
        if any(parts_of[mate] != {part} for mate in mates[layer]):
            return False
    for layers in asked.together:
        everyone = set().union(*(mates[layer] for layer in layers))
        if len(set().union(*(parts_of[mate] for mate in everyone))) > 1:
            return False
    return all(len(set().union(*(parts_of[mate] for mate in mates[layer]))) <= n for layer, n in asked.at_most)


def all_placements(make, asked):
    """Yield every coarse partition that keeps the pins."""
    graph, costs = problem(make)
    hypergraph = api.build(graph, costs, grain="coarse", blocks=None)
    layer_of = np.array(hypergraph.labels.layers)[hypergraph.labels.layer_of]
    for parts in product(range(asked.k), repeat=hypergraph.num_vertices):
        found = {name: {p for p, layer in zip(parts, layer_of, strict=True) if layer == name} for name in set(layer_of)}
        if keeps(make, asked.pins, found):
            yield hypergraph, Partition(np.array(parts), asked.k)


def parts_of(layout):
    found = {layer: set(plane.parts.ravel().tolist()) for layer, plane in layout.owners.items()}
    for layer, plane in layout.kernels.items():
        found[layer] |= set(plane.parts.ravel().tolist()) - {-1}
    return found


@pytest.mark.parametrize("pins", PINS, ids=str)
@pytest.mark.parametrize("make", [Chain, Residual, Depthwise])
@pytest.mark.parametrize(("partitioner", "imbalance"), [("auto", 0.3), ("local", 0.6), ("exact", 0.3)])
def test_no_coarse_placement_that_keeps_the_pins_moves_less(make, pins, partitioner, imbalance):
    graph, costs = problem(make)
    asked = settings(pins, partitioner=partitioner, imbalance=imbalance)
    possible = [
        volume_bytes(hypergraph, found)
        for hypergraph, found in all_placements(make, asked)
        if is_feasible(work_per_part(hypergraph, found), imbalance)
    ]
    if not possible:
        with pytest.raises(BalanceError):
            search.search(graph, costs, asked, search.Watch(20.0))
        return
    plan = api.place_graph(graph, costs, asked)
    assert plan.metrics.volume_bytes == min(possible)
    assert keeps(make, pins, {layer.name: set(layer.parts) for layer in plan.layers})
    assert plan.metrics.bound_bytes is None or plan.metrics.bound_bytes <= min(possible)


@pytest.mark.parametrize("pins", [Pins.of({"a": 2}), Pins.of({"d": 0}, [("a", "b")], {"c": 2})], ids=str)
@pytest.mark.parametrize("grain", ["coarse", "fine", "hybrid"])
@pytest.mark.parametrize(
    "partitioner", ["auto", "kahypar", "vcycle", "mtkahypar", "layerwise", "incremental", "random"]
)
def test_every_partitioner_keeps_them_in_every_grain(grain, partitioner, pins):
    graph, costs = problem(Chain)
    asked = settings(pins, 3, 1.0, grain=grain, partitioner=partitioner)
    layout = search.search(graph, costs, asked, search.Watch(2.0))
    assert keeps(Chain, pins, parts_of(layout))
    if partitioner not in ("layerwise", "incremental", "random"):
        hypergraph = search.hypergraph_of(graph, costs, layout, asked)
        assert is_feasible(work_per_part(hypergraph, partition_of(layout, hypergraph)), asked.imbalance)


@pytest.mark.parametrize("partitioner", ["dataparallel", "server"])
def test_data_parallelism_keeps_them_too(partitioner):
    graph, costs = problem(Chain)
    plan = api.place_graph(graph, costs, settings(Pins.of({"b": 1}), grain="hybrid", partitioner=partitioner))
    assert {layer.name: set(layer.parts) for layer in plan.layers}["b"] == {1}
    assert {layer.name: set(layer.parts) for layer in plan.layers}["c"] == {0, 1}


def test_all_grains_keep_them_and_the_bound_is_said_to_be_without_pins():
    graph, costs = problem(Chain)
    asked = settings(Pins.of({"a": 0, "d": 0}, [("b", "c")]), grain="auto", imbalance=0.2)
    grains = search.search_grains(graph, costs, asked, search.Watch(4.0))
    for found in grains.values():
        assert keeps(Chain, asked.pins, parts_of(found.layout))
    plan = api.place_graph(graph, costs, replace(asked, grain="coarse"))
    free = api.place_graph(graph, costs, replace(asked, grain="coarse", pins=Pins()))
    assert free.metrics.bound_bytes <= free.metrics.volume_bytes < plan.metrics.volume_bytes
    assert plan.metrics.bound_bytes <= free.metrics.volume_bytes
    assert plan.verdict.endswith("without pins")
    assert free.verdict == "optimal (proven)"


@pytest.mark.parametrize(
    "pins", [Pins.of({"a": 1}), Pins.of(keep_together=[("a", "c")]), Pins.of({"c": 0}, at_most={"b": 1})]
)
@pytest.mark.parametrize(("make", "few"), [(Residual, 10**6), (Residual, 0), (Chain, 0)])
def test_no_coarse_placement_that_keeps_the_pins_is_faster(make, pins, few, monkeypatch):
    monkeypatch.setattr(time_search, "FEW", few)
    graph, costs = problem(make)
    rate = 1e6
    cluster = Cluster(tuple(Host(f"h{n}", (Device(speed=1 / (1 + n), flops_per_s=1e9),), rate, rate) for n in range(2)))
    asked, flow = settings(pins), api.FlowWish(in_flight=3)
    loose = replace(asked, imbalance=2.0)
    seconds = [
        api.forecast(graph, costs, place(graph, costs, layout_of(h, found, BATCH), loose), cluster, flow).seconds
        for h, found in all_placements(make, asked)
    ]
    found = api.place_by_time(graph, costs, asked, cluster, flow, api.Watch(6.0))
    assert found.best.seconds <= min(seconds) * (1 + (1e-9 if few else 0.05))
    for one in found.forecasts:
        assert keeps(make, pins, {layer.name: set(layer.parts) for layer in one.plan.layers})


@pytest.mark.parametrize(
    ("pins", "said"),
    [
        (Pins.of({"bb": 1}), "there is no layer 'bb' to pin; did you mean 'b'"),
        (Pins.of({"a": 2}), r"a is pinned to part 2, outside 0\.\.1"),
        (Pins(parts=(("a", 0), ("a", 1))), "a is pinned to part 0 and to part 1"),
        (Pins.of({"a": 0, "c": 1}, [("a", "d"), ("d", "c")]), "a is pinned to part 0 and c to part 1, but"),
    ],
)
def test_pins_that_cannot_hold_are_refused(pins, said):
    graph, costs = problem(Chain)
    with pytest.raises(UsageError, match=said):
        search.search(graph, costs, settings(pins), search.Watch(1.0))


def test_pins_of_layers_that_are_tied_contradict_each_other():
    graph, costs = problem(Residual)
    with pytest.raises(UsageError, match="a is pinned to part 0 and b to part 1, but they are kept together, or tied"):
        search.search(graph, costs, settings(Pins.of({"a": 0, "b": 1})), search.Watch(1.0))


@pytest.mark.parametrize(
    ("pins", "said"),
    [
        (Pins.of({"a": 0, "b": 0, "c": 0}), r"the layers pinned to part 0 weigh 1\.50x the average part; pin less, or"),
        (Pins.of(keep_together=[("a", "b", "c")]), r"a, b, c, which are kept on one part, weigh 1\.50x"),
    ],
)
def test_pins_that_alone_break_the_balance_are_refused(pins, said):
    graph, costs = problem(Chain)
    with pytest.raises(BalanceError, match=said):
        search.search(graph, costs, settings(pins, imbalance=0.1), search.Watch(1.0))


@pytest.mark.parametrize(
    "wrong",
    [
        {"pin": {"a": -1}},
        {"pin": {"a": 1.5}},
        {"at_most": {"a": 0}},
        {"keep_together": [("a",)]},
        {"pin": ["a"]},
        {"pin": {0: 1}},
    ],
)
def test_what_is_no_pin_is_refused(wrong):
    with pytest.raises(UsageError):
        Pins.of(**wrong)


def test_place_takes_pins_and_the_plan_file_keeps_them():
    with torch.device("meta"):
        model, sample = Chain(), torch.empty(BATCH, 2, 8, 8)
    words = {"pin": {"b": np.int64(1)}, "keep_together": [("a", "d")], "at_most": {"c": 1}}
    plan = hyperplace.place(model, sample, k=2, imbalance=0.5, grain="coarse", time_limit_s=5.0, **words)
    assert plan.settings.pins == Pins((("b", 1),), (("a", "d"),), (("c", 1),))
    assert parse_plan(plan_text(plan), "plan.json") == plan


def test_a_plan_without_pins_is_written_as_it_always_was():
    graph, costs = problem(Chain)
    plan = api.place_graph(graph, costs, settings(Pins()))
    assert "pins" not in plan_text(plan)
    assert parse_plan(plan_text(plan), "plan.json").settings.pins == Pins()


def test_a_plan_that_breaks_its_own_pins_does_not_exist():
    graph, costs = problem(Chain)
    plan = api.place_graph(graph, costs, settings(Pins.of({"a": 1})))
    assert isinstance(plan, Plan)
    for pins, said in (
        (Pins.of({"a": 0}), r"a is on parts \[1\], but pinned to part 0"),
        (Pins.of({"z": 0}), "z is pinned, and there is no such layer"),
        (Pins.of(keep_together=[("a", "b", "c", "d")]), "a, b, c, d are on parts"),
    ):
        with pytest.raises(HyperplaceError, match=said):
            replace(plan, settings=replace(plan.settings, pins=pins))
