"""Memory: recomputed segments, micro-batches and posted buffers are counted; plans fit, or say what would make them."""

from dataclasses import replace
from itertools import combinations

import pytest
import torch
from test_timing import chain, problem
from torch import nn

from hyperplace import api
from hyperplace.by_time.fitting import fitted
from hyperplace.errors import BalanceError
from hyperplace.steps.place import place
from hyperplace.values.cluster import Cluster, Device, Host
from hyperplace.values.layout import layout_of
from hyperplace.values.partition import Partition
from hyperplace.values.relief import RECOMPUTE, offloaded, offloading, recomputed, recomputing, spared_bytes

WATCH = api.Watch(3.0)


def hosts(num_parts, memory_bytes=None, rate=1e9, **words):
    device = Device(memory_bytes=memory_bytes, flops_per_s=1e9, kind=words.pop("kind", "cpu"))
    return Cluster(tuple(Host(f"h{n}", (device,), rate, rate, **words) for n in range(num_parts)))


def scattered(num_layers=4, num_parts=2):
    """Return a program with several segments on every part: each layer's filters are on both."""
    net = nn.Sequential(*(nn.Sequential(nn.Conv2d(2, 2, 3, padding=1), nn.GELU()) for _ in range(num_layers)))
    graph, costs, settings = problem(net, num_parts)
    hypergraph = api.build(graph, costs, grain="coarse", blocks=None)
    parts = torch.arange(hypergraph.num_vertices).remainder(num_parts).numpy()
    loose = replace(settings, imbalance=float(num_parts), blocks=None)
    plan = place(graph, costs, layout_of(hypergraph, Partition(parts, num_parts), settings.batch), loose)
    return graph, costs, plan, api.lower(net, plan)


def totals(program, order, **words):
    return [part.total for part in api.memory(program, order, **words)]


def test_what_is_recomputed_is_held_while_its_segment_runs_backward_only():
    _, _, _, program = scattered()
    order = api.schedule(program, 4)
    for p, part in enumerate(program.parts):
        everything = recomputing(program, [(p, s) for s in range(len(part.segments))])
        kept = api.memory(program, order)[p].activations
        again = api.memory(everything, order)[p].activations
        taken = api.memory(recomputing(program, []), order)[p].activations - sum(
            order.lives(p)[s] * one.saved_bytes for s, one in enumerate(part.segments)
        )
        held = sum(order.lives(p)[s] * one.kept_bytes for s, one in enumerate(part.segments))
        largest = max(one.saved_bytes for one in part.segments)
        assert again < kept
        assert again <= max(0, taken) + held + largest, "inputs, and the largest recomputed segment once"


@pytest.mark.parametrize("share", [0.95, 0.8, 0.7])
def test_as_little_is_recomputed_as_by_brute_force(share):
    """All subsets of segments, judged by the same memory: none that fits loses less work, give or take one segment."""
    _, _, _, program = scattered(3)
    order = api.schedule(program, 4)
    before = totals(program, order)
    limits = [round(share * before[0]), None]
    found = fitted(
        program,
        order,
        limits,
        lambda one: totals(one, order),
        lambda p, s: {RECOMPUTE: program.parts[p].segments[s].forward},
    )
    segments = range(len(program.parts[0].segments))
    work = [one.forward for one in program.parts[0].segments]
    fitting = [
        sum(work[s] for s in some)
        for count in range(len(segments) + 1)
        for some in combinations(segments, count)
        if totals(recomputing(program, [(0, s) for s in some]), order)[0] <= limits[0]
    ]
    if not fitting:
        assert totals(found, order)[0] > limits[0]
        return
    assert totals(found, order)[0] <= limits[0]
    chosen = recomputed(found)
    assert all(part == 0 for part, _ in chosen), "part 1 has room"
    assert sum(work[s] for _, s in chosen) <= min(fitting) + max(work)
    for one in chosen:
        without = recomputing(program, set(chosen) - {one})
        assert totals(without, order)[0] > limits[0], "none is spare"


def test_micro_batches_hold_their_share_of_a_mini_batch():
    _, _, _, program = scattered()
    order = api.schedule(program, 4, is_sync=True)
    whole, cut = (api.memory(program, order, micro_batches=number) for number in (1, 4))
    for part, one, other in zip(program.parts, whole, cut, strict=True):
        assert one.stashed == other.stashed == 0, "nobody updates while something is under way"
        largest = max(piece.num_bytes for piece in part.weights.values())
        assert (other.working - largest) * 4 == one.working, "a gradient more, to be added"
        assert one.activations / 4 <= other.activations <= one.activations


def test_buffers_for_what_comes_from_other_hosts_are_there_for_all_in_flight():
    _, _, _, program = scattered()
    order = api.schedule(program, 3)
    here = api.memory(program, order)
    for p, part in enumerate(api.memory(program, order, in_flight=3, cluster=hosts(2))):
        sizes = [
            message.num_bytes(program.batch, program.batch)
            for message in program.messages
            if message.target == p or message.learns
        ]
        assert part.messages == 3 * sum(sizes)
        assert part.activations <= here[p].activations, "received into them"


@pytest.mark.parametrize("schedule", ["async", "sync"])
def test_a_forecast_recomputes_only_where_memory_is_short_and_pays_for_it(schedule):
    graph, costs, plan, _ = scattered()
    flow = api.FlowWish(schedule, in_flight=4)
    free = api.forecast(graph, costs, plan, hosts(2), flow)
    assert free.recompute == ()
    everything = api.forecast(graph, costs, plan, hosts(2), replace(flow, recompute="all"))
    least, most = (max(part.total for part in one.memory) for one in (everything, free))
    assert least < most
    tight = api.forecast(graph, costs, plan, hosts(2, (least + most) // 2), flow)
    assert tight.recompute
    assert not tight.lacks
    assert free.seconds <= tight.seconds <= everything.seconds * (1 + 1e-9)
    assert sum(tight.prediction.busy) * tight.seconds > sum(free.prediction.busy) * free.seconds
    none = api.forecast(graph, costs, plan, hosts(2, (least + most) // 2), replace(flow, recompute="none"))
    assert none.lacks
    assert none.lacking_bytes > 0


def test_what_is_offloaded_takes_as_much_memory_as_what_is_recomputed():
    _, _, _, program = scattered()
    order = api.schedule(program, 4)
    some = [(p, s) for p, part in enumerate(program.parts) for s in range(0, len(part.segments), 2)]
    assert api.memory(offloading(program, some), order) == api.memory(recomputing(program, some), order)
    assert offloaded(offloading(program, some)) == tuple(some)
    assert api.schedule(offloading(program, some), 4) == order


@pytest.mark.parametrize("schedule", ["async", "sync"])
def test_segments_are_offloaded_where_moving_takes_less_than_running_again(schedule):
    graph, costs, plan, _ = scattered()
    flow = api.FlowWish(schedule, in_flight=4)
    everything = api.forecast(graph, costs, plan, hosts(2), replace(flow, recompute="all"))
    free = api.forecast(graph, costs, plan, hosts(2), flow)
    limit = sum(max(part.total for part in one.memory) for one in (everything, free)) // 2

    def tight(rate, **words):
        place = hosts(2, limit, kind="gpu", inside_rate=rate)
        return api.forecast(graph, costs, plan, place, replace(flow, **words))

    slow, fast = tight(1e3), tight(1e9)
    assert slow.recompute
    assert not slow.offload
    assert fast.offload
    assert not fast.recompute
    assert fast.relief == {"recompute": (), "offload": fast.offload}
    assert free.seconds <= fast.seconds < slow.seconds
    assert tight(1e9, offload="none").relief == slow.relief
    assert not any(one.lacks for one in (slow, fast))
    assert api.forecast(graph, costs, plan, hosts(2, limit, inside_rate=1e9), flow).recompute, "the same memory"


def test_a_pass_takes_longer_by_what_moving_takes():
    _, _, _, program = scattered()
    order, rate = api.schedule(program, 4), 1e6
    place = hosts(2, kind="gpu", inside_rate=rate)
    away = offloading(program, [(0, 1)])
    before, after = (api.predict(one, order, place) for one in (program, away))
    busy = [one.busy[0] * one.seconds for one in (before, after)]
    assert busy[1] - busy[0] == pytest.approx(2 * spared_bytes(program.parts[0], 1) / rate)
    at_home = api.predict(away, order, hosts(2))
    assert at_home.seconds == before.seconds, "a CPU's memory is its host's"


def test_the_smallest_change_is_one_that_does():
    graph, costs, settings = problem(nn.Sequential(*(nn.Conv2d(2, 2, 3, padding=1) for _ in range(6))), 2)
    flow = api.FlowWish(in_flight=4, recompute="none")
    roomy = api.place_by_time(graph, costs, settings, hosts(2), flow, WATCH).forecasts
    needs = {
        depth: min(
            max(
                part.total
                for part in api.forecast(graph, costs, one.plan, hosts(2), replace(flow, in_flight=depth)).memory
            )
            for one in roomy
        )
        for depth in (1, 2, 3, 4)
    }
    limit = needs[1]
    assert limit < needs[4]
    with pytest.raises(BalanceError, match=r"lacks .* of memory; \d in flight instead of 4 would do") as fault:
        api.place_by_time(graph, costs, settings, hosts(2, limit), flow, WATCH)
    depth = int(str(fault.value).split("; ")[1].split()[0])
    assert needs[depth] <= limit
    best = api.place_by_time(graph, costs, settings, hosts(2, limit), replace(flow, in_flight=depth), WATCH).best
    assert not best.lacks


def test_more_parts_are_named_where_nothing_less_would_do():
    graph, costs, settings = problem(
        nn.Sequential(*(nn.Conv2d(2, 64, 1), nn.Conv2d(64, 64, 3), nn.Conv2d(64, 2, 1))), 1
    )
    flow = api.FlowWish()
    need = api.place_by_time(graph, costs, settings, hosts(1), api.FlowWish("sync"), WATCH).best.memory[0].total
    with pytest.raises(
        BalanceError, match=r"part 0 on h0 lacks .*; \d parts instead of 1, on devices like .* would do"
    ):
        api.place_by_time(graph, costs, settings, hosts(1, round(0.8 * need)), flow, WATCH)


def test_no_change_is_said_where_none_does():
    graph, costs, settings = problem(chain(), 2)
    with pytest.raises(BalanceError, match="neither fewer in flight, sync nor 8 times as many such devices would do"):
        api.place_by_time(graph, costs, settings, hosts(2, 100), api.FlowWish(), WATCH)
