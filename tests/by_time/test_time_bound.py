"""The bound on the time: below every placement, whatever it splits; above all work on all devices where cards bind."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from hyperplace import api
from hyperplace.by_time.candidates import any_imbalance
from hyperplace.steps.place import place
from hyperplace.values.cluster import Cluster, Device, Host
from hyperplace.values.layout import layout_of
from hyperplace.values.partition import Partition
from hyperplace.values.plan import Settings

BATCH = 4


class Residual(nn.Module):
    def __init__(self, channels, width):
        super().__init__()
        self.a, self.b = nn.Conv2d(channels, width, 3, padding=1), nn.Conv2d(width, width, 3, padding=1)
        self.norm, self.c = nn.BatchNorm2d(width), nn.Linear(width * 36, 5)

    def forward(self, x):
        y = self.a(x)
        return self.c(torch.relu(self.norm(self.b(y)) + y).flatten(1))


def chain(channels, width):
    return nn.Sequential(
        nn.Conv2d(channels, width, 3),
        nn.ReLU(),
        nn.Conv2d(width, 2, 3),
        nn.Flatten(),
        nn.Linear(8, 24),
        nn.Linear(24, 3),
    )


def drawn_cluster(random):
    hosts = tuple(
        Host(
            f"h{number}",
            tuple(Device(speed=random.choice([0.4, 1.0, 2.0]), flops_per_s=1e9) for _ in range(random.integers(1, 3))),
            *random.choice([1e5, 1e6, 1e7, 1e8], 2),
        )
        for number in range(random.integers(1, 4))
    )
    return Cluster(hosts)


def problem(model, cluster, channels=2):
    graph = api.capture(model, torch.zeros(BATCH, channels, 6, 6))
    costs = api.profile(graph, costs="flops", batch=BATCH)
    words = {"grain": "hybrid", "partitioner": "auto", "costs": "flops", "batch": BATCH, "blocks": None}
    number = cluster.num_devices
    return graph, costs, Settings(model="m", k=number, imbalance=any_imbalance(number), row_blocks=BATCH, **words)


def drawn_plans(random, graph, costs, settings, count):
    """Yield placements of cells: all over the parts, and such that neighbouring cells are mostly together."""
    hypergraph = api.build(graph, costs, grain="hybrid", blocks=None, row_blocks=BATCH)
    size = hypergraph.num_vertices
    for _ in range(count):
        if random.random() < 0.3:
            part_of = random.integers(settings.k, size=size)
        else:
            cuts = np.sort(random.integers(size + 1, size=random.integers(0, 6)))
            part_of = random.integers(settings.k, size=len(cuts) + 1)[np.searchsorted(cuts, np.arange(size), "right")]
        yield place(graph, costs, layout_of(hypergraph, Partition(part_of, settings.k), BATCH), settings)


@pytest.mark.parametrize("schedule", ["async", "sync"])
@pytest.mark.parametrize("seed", range(4))
def test_no_placement_of_cells_takes_less_than_the_bound(seed, schedule):
    random = np.random.default_rng(seed)
    cluster = drawn_cluster(random)
    model = random.choice([chain, Residual])(2, int(random.integers(2, 5)))
    graph, costs, settings = problem(model, cluster)
    flow = api.FlowWish(schedule, 3 if schedule == "async" else None)
    bound = api.time_bound(graph, costs, settings, cluster, flow)
    taken = [
        api.forecast(graph, costs, plan, cluster, flow).seconds
        for plan in drawn_plans(random, graph, costs, settings, 8)
    ]
    best = api.place_by_time(graph, costs, settings, cluster, flow, api.Watch(0.2)).best
    assert bound.seconds <= min(*taken, best.seconds)


def two_hosts(rate, **words):
    return Cluster(tuple(Host(name, (Device(flops_per_s=1e9, **words),), rate, rate) for name in "ab"))


def test_where_cards_bind_the_bound_is_above_all_work_on_all_devices_and_says_so():
    slow, fast = two_hosts(1e5), two_hosts(1e12)
    graph, costs, settings = problem(chain(2, 4), slow)
    work = sum(costs[layer.name].filter_work * layer.num_filters for layer in graph.layers)
    ideal = api.time_bound(graph, costs, settings, fast)
    assert ideal.seconds == pytest.approx(work / 2e9, rel=0.02)
    assert ideal.binds == "the work of all devices"
    bound = api.time_bound(graph, costs, settings, slow)
    assert 1.5 * ideal.seconds < bound.seconds <= work / 1e9
    assert "card" in bound.binds or bound.binds == "the work of a"


def test_memory_for_half_the_weights_on_a_host_raises_the_bound():
    graph, costs, settings = problem(chain(2, 4), two_hosts(1e5))
    weights = sum(layer.parameter_bytes for layer in graph.layers)
    free = api.time_bound(graph, costs, settings, two_hosts(1e5)).seconds
    tight = api.time_bound(graph, costs, settings, two_hosts(1e5, memory_bytes=int(1.6 * weights)))
    assert tight.seconds > 1.05 * free
    assert "the memory of" in tight.binds


def test_a_layer_that_is_never_split_takes_its_time_on_the_fastest_device():
    class Sorted(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Conv2d(2, 2, 1)

        def forward(self, x):
            return torch.sort(self.a(x).flatten(1), dim=0).values

    cluster = two_hosts(1e12)
    graph, costs, settings = problem(Sorted(), cluster)
    heavy = replace(
        costs,
        layers=tuple(
            replace(one, filter=replace(one.filter, forward=1e6)) if graph[one.layer].reason else one
            for one in costs.layers
        ),
    )
    whole = next(layer for layer in graph.layers if layer.reason)
    bound = api.time_bound(graph, heavy, settings, cluster)
    assert bound.seconds >= 0.99 * 1e6 * whole.num_filters / 1e9
    assert whole.name in bound.binds or "the work of" in bound.binds


def test_more_memory_is_named_where_it_would_make_a_plan_faster():
    roomy = two_hosts(3e7)  # slow enough for plans that gain by mini-batches in flight
    graph, costs, settings = problem(Residual(2, 4), roomy)
    free = api.place_by_time(graph, costs, settings, roomy, api.FlowWish(), api.Watch(0.2)).best
    assert "memory" not in free.binds
    most = max(part.total for part in free.memory)
    limits = (int(share * most) for share in np.arange(0.95, 0.3, -0.05))
    tight = [api.forecast(graph, costs, free.plan, two_hosts(3e7, memory_bytes=limit)) for limit in limits]
    slower = [one for one in tight if not one.lacks and one.seconds > 1.03 * free.seconds]
    assert slower
    assert {one.binds for one in slower} <= {"part 0's memory", "part 1's memory"}
