"""Plans by time: as fast as the best of all placements, never below the bound, and within memory."""

from dataclasses import replace
from functools import cache
from itertools import product

import numpy as np
import pytest
import torch
from torch import nn

from hyperplace import api
from hyperplace.by_time import search as time_search
from hyperplace.by_time import timing
from hyperplace.errors import BalanceError, UsageError
from hyperplace.replanning import corrected
from hyperplace.steps.place import place
from hyperplace.values.cluster import Cluster, Device, Host, parse_cluster
from hyperplace.values.layout import layout_of
from hyperplace.values.partition import Partition
from hyperplace.values.plan import Settings
from hyperplace.values.profile import Profile
from hyperplace.values.timeline import Event, Timeline

WATCH = api.Watch(3.0)


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Conv2d(2, 2, 3, padding=1), nn.Conv2d(2, 2, 3, padding=1), nn.Conv2d(2, 1, 1)

    def forward(self, x):
        y = self.a(x)
        return self.c(self.b(y) + y)


def chain():
    return nn.Sequential(nn.Conv2d(2, 2, 3), nn.ReLU(), nn.Conv2d(2, 2, 3), nn.ReLU(), nn.Conv2d(2, 1, 3))


def unequal(num_parts, rate):
    return Cluster(
        tuple(Host(f"h{n}", (Device(speed=1 / (1 + n), flops_per_s=1e9),), rate, rate) for n in range(num_parts))
    )


def problem(model, num_parts, seed=0):
    sample = torch.zeros(4, 2, 8, 8)
    graph = api.capture(model, sample)
    costs = api.profile(graph, costs="flops", batch=4)
    settings = Settings(
        model="m", k=num_parts, imbalance=0.1, grain="coarse", partitioner="auto", costs="flops", batch=4, seed=seed
    )
    return graph, costs, settings


@cache
def best_of_all(make, rate, num_parts, flow):
    """Return the least seconds of any coarse placement."""
    graph, costs, settings = problem(make(), num_parts)
    cluster = unequal(num_parts, rate)
    hypergraph = api.build(graph, costs, grain="coarse", blocks=None)
    loose = replace(settings, imbalance=float(settings.k), blocks=None)
    seconds = []
    for parts in product(range(settings.k), repeat=hypergraph.num_vertices):
        layout = layout_of(hypergraph, Partition(np.array(parts), settings.k), settings.batch)
        plan = place(graph, costs, layout, loose)
        seconds.append(api.forecast(graph, costs, plan, cluster, flow).seconds)
    return min(seconds)


# More of them, and residual networks at other rates: make sweep-time-plans.
@pytest.mark.parametrize(
    ("make", "rate", "few"),
    [(chain, 1e4, time_search.FEW), (chain, 1e6, 0), (chain, 1e9, time_search.FEW), (Residual, 1e6, time_search.FEW)],
)
def test_no_coarse_placement_is_faster(make, rate, few, monkeypatch):
    """Where few is 0, the search goes step by step instead of trying all."""
    monkeypatch.setattr(time_search, "FEW", few)
    graph, costs, settings = problem(make(), 2)
    cluster, flow = unequal(2, rate), api.FlowWish(in_flight=3)
    found = api.place_by_time(graph, costs, replace(settings, blocks=None), cluster, flow, api.Watch(30.0)).best
    least = best_of_all(make, rate, 2, flow)
    assert found.seconds <= least * (1 + (1e-9 if few else 0.05))
    assert api.time_bound(graph, costs, settings, cluster, flow).seconds <= least


def test_a_slow_device_gets_less_work():
    graph, costs, settings = problem(nn.Sequential(*(nn.Conv2d(2, 2, 3, padding=1) for _ in range(6))), 2)
    best = api.place_by_time(graph, costs, settings, unequal(2, 1e12), api.FlowWish(), WATCH).best
    work = best.plan.metrics.work_per_part
    assert work[0] > 1.5 * work[1]


def test_what_fits_into_no_memory_is_refused_with_who_lacks_what():
    graph, costs, settings = problem(chain(), 2)
    tiny = Cluster(tuple(Host(name, (Device(memory_bytes=100, flops_per_s=1e9),)) for name in "ab"))
    with pytest.raises(BalanceError, match=r"part \d on . lacks .* of memory.*; neither .* would do"):
        api.place_by_time(graph, costs, settings, tiny, api.FlowWish(), WATCH)


def test_a_plan_that_needs_less_memory_is_taken_where_the_fastest_does_not_fit():
    graph, costs, settings = problem(Residual(), 2)
    roomy = unequal(2, 1e9)
    fastest = api.place_by_time(graph, costs, settings, roomy, api.FlowWish(), WATCH)
    needed = max(part.total for part in fastest.best.memory)
    others = [max(part.total for part in one.memory) for one in fastest.forecasts]
    assert min(others) < needed, "another plan needs less"
    limit = (min(others) + needed) // 2
    tight = Cluster(tuple(replace(h, devices=(replace(h.devices[0], memory_bytes=limit),)) for h in roomy.hosts))
    best = api.place_by_time(graph, costs, settings, tight, api.FlowWish(), WATCH).best
    assert max(part.total for part in best.memory) <= limit


def test_a_sweep_has_every_method_everywhere_and_time_is_never_slower():
    graph, costs, settings = problem(chain(), 2)
    measured = Profile("measured", "us", 4, tuple(replace(c, timing=None) for c in costs.layers), graph=costs.graph)
    values = {"hosts": ["1", "2"], "bandwidth": ["1mbit", "1gbit"]}
    rows = api.sweep(graph, measured, settings, parse_cluster("1x2"), values, [api.FlowWish()], 4.0)
    assert {one.plan.settings.k for hosts, _, one in rows if hosts == 2} == {4}, "two devices a host"
    for hosts, rate in {(n, r) for n, r, _ in rows}:
        some = {one.name: one.seconds for n, r, one in rows if (n, r) == (hosts, rate)}
        assert some["by time"] == min(some.values())


def test_in_a_sweep_too_a_plan_by_time_is_searched_for():
    """It was the fastest of the tabled methods, and nobody searched."""
    graph, costs, settings = problem(Residual(), 2)
    measured = Profile("measured", "us", 4, tuple(replace(c, timing=None) for c in costs.layers), graph=costs.graph)
    values, flows = {"hosts": ["2"], "bandwidth": ["10mbit"]}, [api.FlowWish()]
    *others, by_time = (one for _, _, one in api.sweep(graph, measured, settings, parse_cluster("1x1"), values, flows))
    assert by_time.seconds < min(one.seconds for one in others) * 0.999


def test_a_timeline_corrects_the_costs_of_the_layers_it_shows():
    graph, costs, settings = problem(Residual(), 2)
    measured = Profile("measured", "us", 4, costs.layers, graph=costs.graph)
    settings = replace(settings, partitioner="incremental", costs="measured")
    plan = api.place_graph(graph, measured, settings)
    program = api.runnable(graph, plan, measured).program
    ideal = api.simulate(program, api.schedule(program, 2), parse_cluster("1x2"))
    slower = replace(
        ideal,
        events=tuple(
            replace(e, start_us=9 * e.start_us, end_us=9 * e.start_us + (3 if e.part else 1) * (e.end_us - e.start_us))
            for e in ideal.events
        ),
        is_predicted=False,
    )
    found = corrected(graph, measured, plan, slower)
    owners = {layer.name: {owner.part for owner in layer.owners} for layer in plan.layers}
    only = [name for name, parts in owners.items() if parts == {1} and measured[name].filter.forward]
    assert only, "some layer is on part 1 alone"
    for name in only:
        assert found[name].filter.forward == pytest.approx(3 * measured[name].filter.forward, rel=1e-6)
    for name, parts in owners.items():
        if parts == {0}:
            assert found[name].filter.forward == pytest.approx(measured[name].filter.forward, rel=1e-6)


def test_a_timeline_of_something_else_is_refused():
    graph, costs, settings = problem(chain(), 2)
    plan = api.place_graph(graph, costs, settings)
    with pytest.raises(UsageError, match="FLOPs cannot be corrected"):
        corrected(graph, costs, plan, Timeline(2, ()))
    measured = Profile("measured", "us", 4, costs.layers, graph=costs.graph)
    with pytest.raises(UsageError, match="has 3 parts, the plan 2"):
        corrected(graph, measured, plan, Timeline(3, ()))
    with pytest.raises(UsageError, match="no segment of the plan"):
        corrected(graph, measured, plan, Timeline(2, (Event(0, "forward", "elsewhere", 0, 0.0, 1.0),)))


@pytest.mark.parametrize("rate", [1e4, 1e6, 1e9])
def test_no_depth_that_could_be_faster_is_left_out(rate, monkeypatch):
    """Depths are tried until one is about as fast as the busiest device or card lets any be."""
    graph, costs, settings = problem(chain(), 2)
    own = replace(settings, grain="hybrid", partitioner="dataparallel")
    plan = api.place_graph(graph, costs, own)
    found = api.forecast(graph, costs, plan, unequal(2, rate))
    monkeypatch.setattr(timing, "_least_seconds", lambda program, cluster: 0.0)
    of_all = api.forecast(graph, costs, plan, unequal(2, rate))
    assert of_all.seconds <= found.seconds <= of_all.seconds / timing.ENOUGH
    assert found.in_flight <= of_all.in_flight


def by_hosts(rate):
    hosts = [Host(name, (Device(flops_per_s=1e9),) * 2, rate, rate) for name in "ab"]
    return Cluster(tuple(hosts))


def test_plans_for_hosts_with_several_devices_know_them_and_are_faster_for_it():
    graph, costs, settings = problem(chain(), 4)
    found = api.place_by_time(graph, costs, settings, by_hosts(1e9), watch=WATCH)
    assert all(one.plan.settings.hosts == (0, 0, 1, 1) for one in found.forecasts)
    apart = unequal(4, 1e9)
    assert api.place_by_time(graph, costs, settings, apart, watch=WATCH).best.plan.settings.hosts == ()
    own = replace(settings, grain="hybrid", partitioner="dataparallel", row_blocks=4)
    seconds = [
        api.forecast(graph, costs, api.place_graph(graph, costs, replace(own, hosts=hosts)), by_hosts(1e3)).seconds
        for hosts in ((), (0, 0, 1, 1))
    ]
    assert seconds[1] < 0.75 * seconds[0], "half of what a card carried"
