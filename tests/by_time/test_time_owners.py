"""Owners of replicas by time: equal shares are slow where cards are not alike; whoever owns, training is the same."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from hyperplace import api
from hyperplace.by_time.owners import other_owners
from hyperplace.errors import HyperplaceError
from hyperplace.files.plan import parse_plan, plan_text
from hyperplace.steps.place import reowned
from hyperplace.values.cluster import Cluster, Device, Host
from hyperplace.values.plan import Settings

BATCH = 6


def model():
    return nn.Sequential(nn.Conv2d(2, 6, 3), nn.ReLU(), nn.Conv2d(6, 6, 3), nn.Flatten(), nn.Linear(24, 12))


def unequal(*rates):
    return Cluster(tuple(Host(f"h{n}", (Device(flops_per_s=1e12),), rate, rate) for n, rate in enumerate(rates)))


def data_parallel(num_parts):
    graph = api.capture(model().double(), torch.zeros(BATCH, 2, 6, 6).double())
    costs = api.profile(graph, costs="flops", batch=BATCH)
    words = {"grain": "hybrid", "partitioner": "dataparallel", "costs": "flops", "batch": BATCH, "row_blocks": BATCH}
    settings = Settings(model="m", k=num_parts, imbalance=1.0, **words)
    return graph, costs, api.place_graph(graph, costs, settings)


def owned_bytes(plan, part):
    """Count what copies elsewhere say that a part owns: each of its filters has as many copies as there are others."""
    return sum(one.parameter_bytes for one in plan.replicas if one.owner == part) // (plan.settings.k - 1)


def test_weights_are_owned_in_proportion_and_no_byte_more_moves():
    _, _, plan = data_parallel(3)
    other = reowned(plan, [2.0, 1.0, 0.0])
    assert owned_bytes(other, 2) == 0
    assert owned_bytes(other, 0) == pytest.approx(2 * owned_bytes(other, 1), rel=0.1)
    assert other.metrics.training_volume_bytes == plan.metrics.training_volume_bytes
    assert reowned(plan, [0.0, 0.0, 0.0]) == plan, "equal shares where nobody is to own anything"


def test_a_slow_card_owns_nothing_where_that_is_faster():
    graph, costs, plan = data_parallel(3)
    cluster, flow = unequal(1e7, 1e7, 1e6), api.FlowWish("async", 3)
    evenly = api.forecast(graph, costs, plan, cluster, flow)
    found = {
        name: api.forecast(graph, costs, other, cluster, flow)
        for name, other in other_owners(plan, cluster, evenly.prediction.busy)
    }
    best = min(found.values(), key=lambda one: one.seconds)
    # Three parts of which each owns a third send 4/3 of the weights each way; one that owns nothing sends all once.
    assert best.seconds == pytest.approx(0.75 * evenly.seconds, rel=0.08)
    assert owned_bytes(best.plan, 2) < 0.1 * owned_bytes(plan, 2) + 100


def test_the_search_takes_such_owners_and_the_plan_file_keeps_them():
    graph, costs, plan = data_parallel(3)
    cluster, flow = unequal(1e7, 1e7, 1e6), api.FlowWish("async", 3)
    found = api.place_by_time(graph, costs, plan.settings, cluster, flow, api.Watch(0.3))
    assert found.placement.plan == found.best.plan
    other = reowned(plan, [1.0, 1.0, 0.0])
    text = plan_text(other)
    assert parse_plan(text, "plan.json") == other
    wrong = replace(
        other, replicas=tuple(replace(one, owner=2 if one.owner == 0 else one.owner) for one in other.replicas)
    )
    with pytest.raises(HyperplaceError):
        parse_plan(plan_text(wrong), "plan.json")


@pytest.mark.parametrize("schedule", ["async", "sync"])
@pytest.mark.parametrize("weights", [(1.0, 1.0, 0.0), (0.0, 1.0, 0.0), (5.0, 1.0, 2.0)])
def test_whoever_owns_them_training_is_that_of_the_plain_model(weights, schedule):
    _, _, plan = data_parallel(3)
    torch.manual_seed(0)
    plain = model().double()
    start = {name: value.clone() for name, value in plain.state_dict().items()}
    batches = [(torch.randn(BATCH, 2, 6, 6).double(), torch.randn(BATCH, 12).double()) for _ in range(3)]
    optimizer = torch.optim.SGD(plain.parameters(), lr=0.05, momentum=0.9)
    wanted = []
    for x, y in batches:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(plain(x), y)
        loss.backward()
        optimizer.step()
        wanted.append(loss.item())
    split = model().double()
    split.load_state_dict(start)
    words = {"schedule": schedule, "in_flight": 1} if schedule == "async" else {"schedule": schedule}
    with api.compile(
        split,
        reowned(plan, weights),
        loss=nn.functional.mse_loss,
        optimizer=lambda ps: torch.optim.SGD(ps, lr=0.05, momentum=0.9),
        **words,
    ) as trainer:
        losses = [float(trainer.step(x, y)) for x, y in batches]
        state = trainer.state_dict()
    assert losses == pytest.approx(wanted, abs=1e-10)
    assert all(torch.allclose(state[name], value, atol=1e-10) for name, value in plain.state_dict().items())


def test_weights_joined_from_several_owners_are_counted_in_memory():
    graph, costs, plan = data_parallel(3)

    def kept(weights):
        program = api.runnable(graph, reowned(plan, weights), costs).program
        return [part.activations for part in api.memory(program, api.schedule(program, 1))]

    # Owned in shares, every mini-batch puts all weights together; owned by one part, they are whole everywhere.
    for shared, whole in zip(kept([1.0, 1.0, 1.0]), kept([1.0, 0.0, 0.0]), strict=True):
        assert whole + plan.parameter_bytes <= shared <= whole + 2 * plan.parameter_bytes
