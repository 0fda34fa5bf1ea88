"""A limit below what the byte plan needs is met by the plan by time, as measured in a process per part."""

import sys

import pytest
import torch
from ranks import HERE, lines, run

from hyperplace import api
from hyperplace.values.cluster import Cluster, Device, Host
from hyperplace.values.plan import Settings
from hyperplace.values.relief import chosen_text

sys.path.insert(0, str(HERE))
from measured_memory import made

SIDE, ROWS, SHARE, IN_FLIGHT = 32, 32, 0.8, 4


def hosts(memory_bytes=None):
    device = Device(memory_bytes=memory_bytes, flops_per_s=1e10)
    return Cluster(tuple(Host(name, (device,), 1e9, 1e9) for name in "ab"))


def trained(path, plan, in_flight, recompute):
    """Return what the processes of both parts say, the first part first."""
    api.save_plan(plan, path)
    words = ("chain", SIDE, "async", in_flight, 1, recompute, 6)
    found = lines(run(2, "measured_memory.py", path, *words, limit_s=280))
    return sorted(found, key=lambda one: one["part"])


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc; run it on Linux")
def test_a_limit_below_what_the_byte_plan_needs_is_met(tmp_path):
    graph = api.capture(made("chain", SIDE), torch.zeros(ROWS, 3, SIDE, SIDE))
    costs = api.profile(graph, costs="flops", batch=ROWS)
    settings = Settings(
        model="chain", k=2, imbalance=0.1, grain="coarse", partitioner="auto", costs="flops", batch=ROWS
    )
    by_bytes = api.place_graph(graph, costs, settings, time_limit_s=5.0)
    flow = api.FlowWish(in_flight=IN_FLIGHT)
    needed = max(part.total for part in api.forecast(graph, costs, by_bytes, hosts(), flow).memory)
    limit = round(SHARE * needed)
    best = api.place_by_time(graph, costs, settings, hosts(limit), flow, api.Watch(10.0)).best
    assert not best.lacks
    assert max(part.total for part in best.memory) <= limit
    before = trained(tmp_path / "bytes.json", by_bytes, IN_FLIGHT, "none")
    assert max(one["tensors"] for one in before) > limit, "the byte plan does need more"
    after = trained(tmp_path / "time.json", best.plan, best.in_flight, chosen_text(best.recompute))
    assert max(one["tensors"] for one in after) <= limit

    tight = api.forecast(graph, costs, by_bytes, hosts(limit), flow)
    assert tight.recompute, "the byte plan itself fits once it recomputes"
    assert not tight.lacks
    again = trained(tmp_path / "bytes.json", by_bytes, IN_FLIGHT, chosen_text(tight.recompute))
    assert max(one["tensors"] for one in again) <= limit
    assert [one["losses"] for one in again] == [one["losses"] for one in before]
    for one in (*before, *after, *again):
        assert one["tensors"] == pytest.approx(one["predicted"], rel=0.15)


def test_a_limit_that_recomputing_cannot_meet_is_refused_by_name():
    graph = api.capture(made("chain", SIDE), torch.zeros(ROWS, 3, SIDE, SIDE))
    costs = api.profile(graph, costs="flops", batch=ROWS)
    settings = Settings(
        model="chain", k=2, imbalance=0.1, grain="coarse", partitioner="auto", costs="flops", batch=ROWS
    )
    by_bytes = api.place_graph(graph, costs, settings, time_limit_s=5.0)
    found = api.forecast(graph, costs, by_bytes, hosts(2**20), api.FlowWish(in_flight=1))
    assert "part 0 on a lacks" in found.lacks
    assert found.lacking_bytes == sum(part.total - 2**20 for part in found.memory)
