"""Programs of plans that split rows compute what the model computes, at any batch size, and move what was planned."""

import copy
from dataclasses import replace

import pytest
import torch
from capture_models import MODELS, captured, model
from program_cases import flat, largest_difference, plain_step, planned, sgd, trainer_of, wavy_loss
from test_zoo_programs import case
from torch import nn
from torch.nn import functional as F

from hyperplace.models import ZOO
from hyperplace.runtime import load_checkpoint, save_checkpoint
from hyperplace.steps.capture import capture
from hyperplace.steps.lower import lower
from hyperplace.steps.profile.work import count_flops

UNTRAINABLE = {"in_place_then_read_again"}  # plain torch refuses its backward pass, too
NAMES = sorted(set(MODELS) - UNTRAINABLE)


@pytest.mark.parametrize("name", NAMES)
def test_every_way_channels_flow(name):
    net, inputs = model(name)
    graph = captured(name)
    loss, after = plain_step(net, inputs, None, wavy_loss)
    for k, how, blocks in [
        (1, "contiguous", None),
        (2, "scattered", None),
        (3, "scattered", 2),
        (2, "dataparallel", 1),
    ]:
        plan = planned(graph, "hybrid", k, how, blocks=blocks, row_blocks=2)
        with trainer_of(graph, plan, net, wavy_loss) as trainer:
            assert trainer.step(*inputs, None).item() == pytest.approx(loss, rel=1e-9, abs=1e-9)
            assert largest_difference(trainer.state_dict(), after.state_dict()) < 1e-9
            assert trainer.moved_bytes() == plan.moved_bytes


@pytest.mark.parametrize("name", [name for name in ZOO if name not in ("resnet101", "vgg19", "vgg19_bn")])
def test_zoo_models_split_by_rows_equal_plain_ones(name):
    """ResNet-101 and VGG19 are others with more of the same: `make sweep-programs` has them too."""
    net, x, y, graph, (loss, after) = case(name, torch.float64)
    ways = ["dataparallel", "random"] if list(ZOO).index(name) % 2 else ["random", "dataparallel"]
    for k, how in zip((2, 3), ways, strict=True):
        plan = planned(graph, "hybrid", k, how, blocks=1 if how == "dataparallel" else 2, row_blocks=k)
        with trainer_of(graph, plan, net, F.cross_entropy) as trainer:
            assert trainer.step(x, y).item() == pytest.approx(loss, rel=1e-9, abs=1e-9)
            assert largest_difference(trainer.state_dict(), after.state_dict()) < 1e-9
            assert trainer.moved_bytes() == plan.moved_bytes
    case.cache_clear()


@pytest.mark.parametrize("micro_batches", [1, 2, 3, 5])
@pytest.mark.parametrize(("how", "row_blocks"), [("scattered", 3), ("scattered", 5), ("dataparallel", 3)])
def test_micro_batches_move_what_the_plan_says_of_them(how, row_blocks, micro_batches):
    """Rows that are split are cut again in every micro-batch, at the nearest whole row."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Conv2d(4, 6, 3), nn.Flatten(), nn.Linear(96, 5)).double()
    x, y = torch.randn(7, 3, 8, 8, dtype=torch.float64), torch.arange(7) % 5
    graph = capture(net, x)
    plan = planned(graph, "hybrid", 2, how, blocks=2 if how == "scattered" else 1, row_blocks=row_blocks)
    with trainer_of(graph, plan, net, F.cross_entropy, schedule="sync", micro_batches=micro_batches) as trainer:
        trainer.step(x, y)
        assert trainer.moved_bytes() == plan.moved_in(micro_batches)


class Small(nn.Module):
    """Convolutions with batch norms, a residual, and a linear layer."""

    def __init__(self):
        super().__init__()
        self.a, self.m = nn.Conv2d(3, 6, 3, padding=1), nn.BatchNorm2d(6)
        self.b, self.n = nn.Conv2d(6, 6, 3, padding=1, bias=False), nn.BatchNorm2d(6)
        self.c = nn.Linear(6 * 4, 5)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.m(self.a(x))), 2)
        return self.c(F.max_pool2d(F.relu(self.n(self.b(x)) + x), 2).flatten(1))


def small(rows=4):
    torch.manual_seed(0)
    net = Small().double()
    return net, capture(net, torch.randn(rows, 3, 8, 8, dtype=torch.float64))


def batches(*sizes):
    generator = torch.Generator().manual_seed(1)
    return [
        (torch.randn(rows, 3, 8, 8, generator=generator, dtype=torch.float64), torch.arange(rows) % 5) for rows in sizes
    ]


def momentum(parameters):
    return torch.optim.SGD(parameters, lr=0.05, momentum=0.9)


def plain_run(net, data):
    """Return the losses of a plain loop, and the model after it."""
    net = copy.deepcopy(net)
    optimizer, losses = momentum(net.parameters()), []
    for x, y in data:
        optimizer.zero_grad()
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, net


@pytest.mark.parametrize(("k", "how"), [(2, "dataparallel"), (3, "dataparallel"), (2, "scattered"), (3, "scattered")])
@pytest.mark.parametrize("schedule", ["async", "sync"])
def test_batches_of_any_size_run_with_rows_scaled(k, how, schedule):
    net, graph = small()
    data = batches(4, 1, 3, 7, 2, 4)
    wanted, after = plain_run(net, data)
    plan = planned(graph, "hybrid", k, how, blocks=1 if how == "dataparallel" else 3, row_blocks=4)
    with trainer_of(graph, plan, net, F.cross_entropy, optimizer=momentum, schedule=schedule) as trainer:
        losses = [trainer.step(x, y).item() for x, y in data]
        assert losses == pytest.approx(wanted, rel=1e-9)
        assert largest_difference(trainer.state_dict(), after.state_dict()) < 1e-9


@pytest.mark.parametrize("affine", [True, False])
def test_instance_norms_of_no_rows(affine):
    net = nn.Sequential(nn.Conv2d(4, 6, 3), nn.InstanceNorm2d(6, affine=affine)).double()
    graph = capture(net, torch.randn(2, 4, 6, 6, dtype=torch.float64))
    x = torch.randn(1, 4, 6, 6, dtype=torch.float64)
    loss, after = plain_step(net, (x,), None, wavy_loss)
    plan = planned(graph, "hybrid", 2, "dataparallel", blocks=1, row_blocks=2)
    with trainer_of(graph, plan, net, wavy_loss) as trainer:
        assert trainer.step(x, None).item() == pytest.approx(loss, rel=1e-9, abs=1e-9)
        assert largest_difference(trainer.state_dict(), after.state_dict()) < 1e-9


def test_predictions_are_those_of_the_model_in_evaluation_mode_after_training_in_flight():
    net, graph = small()
    plan = planned(graph, "hybrid", 3, "scattered", blocks=3, row_blocks=4)
    with trainer_of(graph, plan, net, F.cross_entropy, in_flight=3) as trainer:
        for x, y in batches(4, 4, 4, 4, 4):
            trainer.step(x, y)
        x = batches(5)[0][0]
        found = trainer.predict(x)
        net.load_state_dict(trainer.state_dict())
        net.eval()
        assert torch.allclose(found, net(x), rtol=1e-9, atol=1e-12)


def test_a_checkpoint_goes_from_rows_to_filters_and_back(tmp_path):
    net, graph = small()
    data = batches(4, 4, 4, 4, 4, 4)
    wanted, _ = plain_run(net, data)
    plans = [
        planned(graph, "hybrid", 3, "scattered", blocks=3, row_blocks=4),
        planned(graph, "coarse", 2, "contiguous"),
        planned(graph, "hybrid", 2, "dataparallel", blocks=1, row_blocks=2),
    ]
    losses = []
    for number, plan in enumerate(plans):
        with trainer_of(graph, plan, net, F.cross_entropy, optimizer=momentum) as trainer:
            if number:
                load_checkpoint(trainer, tmp_path / "c.pt")
            losses += [trainer.step(x, y).item() for x, y in data[2 * number : 2 * number + 2]]
            save_checkpoint(trainer, tmp_path / "c.pt")
    assert losses == pytest.approx(wanted, rel=1e-9)


def test_micro_batches_of_split_rows_have_the_gradients_of_the_whole():
    net, inputs = model("plain")
    graph = captured("plain")
    x = torch.randn(6, *inputs[0].shape[1:], dtype=torch.float64)
    target = torch.randn(flat(net(x))[0].shape, dtype=torch.float64)
    loss, after = plain_step(net, (x,), target, F.mse_loss)
    plan = planned(graph, "hybrid", 2, "dataparallel", blocks=1, row_blocks=2)
    options = {"schedule": "sync", "micro_batches": 3, "in_flight": 2}
    with trainer_of(graph, plan, net, F.mse_loss, optimizer=sgd, **options) as trainer:
        assert trainer.step(x, target).item() == pytest.approx(loss, rel=1e-9)
        assert largest_difference(trainer.state_dict(), after.state_dict()) < 1e-9


@pytest.mark.parametrize("name", ["rows", "count", "batch", "num_rows", "see"])
@pytest.mark.parametrize("how", ["dataparallel", "scattered"])
def test_a_parameter_may_be_called_like_an_attribute_of_a_part(name, how):
    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.n = nn.Conv2d(4, 6, 3), nn.BatchNorm2d(6)
            self.register_parameter(name, nn.Parameter(torch.rand(1, 6, 1, 1)))

        def forward(self, x):
            return self.n(self.a(x)) * getattr(self, name)

    net, x = Scaled().double(), torch.randn(2, 4, 6, 6, dtype=torch.float64)
    graph = capture(net, x)
    loss, after = plain_step(net, (x,), None, wavy_loss)
    plan = planned(graph, "hybrid", 2, how, blocks=1 if how == "dataparallel" else 3, row_blocks=2)
    with trainer_of(graph, plan, net, wavy_loss) as trainer:
        assert trainer.step(x, None).item() == pytest.approx(loss, rel=1e-9, abs=1e-9)
        assert largest_difference(trainer.state_dict(), after.state_dict()) < 1e-9


def test_in_flight_runs_repeat_to_the_bit():
    net, graph = small()
    plan = planned(graph, "hybrid", 3, "scattered", blocks=3, row_blocks=4)
    states = []
    for _ in range(2):
        with trainer_of(graph, plan, net, F.cross_entropy, in_flight=4) as trainer:
            for x, y in batches(4, 4, 3, 4, 5, 4):
                trainer.step(x, y)
            states.append(trainer.state_dict())
    assert largest_difference(*states) == 0


@pytest.mark.parametrize("how", ["dataparallel", "scattered"])
def test_batch_norms_per_shard_see_their_own_rows_only(how):
    """Plain torch on each half is the reference of data parallelism; scattered pieces must move as planned."""
    net, graph = small()
    graph = graph.without_statistics()
    ((x, y),) = batches(4)
    plan = planned(graph, "hybrid", 2, how, blocks=1 if how == "dataparallel" else 3, row_blocks=2)
    halves = copy.deepcopy(net)
    optimizer = sgd(halves.parameters())
    loss = F.cross_entropy(torch.cat((halves(x[:2]), halves(x[2:]))), y)
    loss.backward()
    optimizer.step()
    with trainer_of(graph, plan, net, F.cross_entropy) as trainer:
        found = trainer.step(x, y).item()
        assert trainer.moved_bytes() == plan.moved_bytes
        assert not any(replica.statistics_bytes for replica in plan.replicas)
        if how == "dataparallel":
            assert found == pytest.approx(loss.item(), rel=1e-12)
            first, second = (after_rows(net, rows) for rows in (x[:2], x[2:]))
            buffers = {name: first_half(one, second[name]) for name, one in first.items()}
            assert largest_difference(trainer.state_dict(), halves.state_dict() | buffers) < 1e-12


def after_rows(net, rows):
    """Return the statistics of a model that has seen some rows."""
    other = copy.deepcopy(net)
    other(rows)
    return dict(other.named_buffers())


def first_half(one, other):
    """Return statistics of which part 0 owns the first half of the filters; all count mini-batches alike."""
    return torch.cat((one[: len(one) // 2], other[len(one) // 2 :])) if one.ndim else one


def test_batch_norms_per_shard_may_have_no_rows():
    """One row of two planned for is on part 1; part 0's running statistics stay, those of the filters that it owns."""
    net, exact = small(2)
    graph = exact.without_statistics()
    ((x, y),) = batches(1)
    plan = planned(graph, "hybrid", 2, "dataparallel", blocks=1, row_blocks=2)
    loss, after = plain_step(net, (x,), y, F.cross_entropy)
    learnt = dict(after.named_buffers())
    buffers = {name: first_half(one, learnt[name]) for name, one in net.named_buffers() if "running" in name}
    with trainer_of(graph, plan, net, F.cross_entropy) as trainer:
        assert trainer.step(x, y).item() == pytest.approx(loss, rel=1e-9)
        assert largest_difference(trainer.state_dict(), after.state_dict() | buffers) < 1e-9


@pytest.mark.parametrize("grain", ["coarse", "hybrid"])
def test_frozen_batch_norms_stay_frozen(grain):
    net, _ = small()
    net.m.eval()
    graph = capture(net, torch.randn(4, 3, 8, 8, dtype=torch.float64))
    ((x, y),) = batches(4)
    loss, after = plain_step(net, (x,), y, F.cross_entropy)
    plan = planned(graph, grain, 2, "scattered", blocks=3, row_blocks=2)
    with trainer_of(graph, plan, net, F.cross_entropy) as trainer:
        assert trainer.step(x, y).item() == pytest.approx(loss, rel=1e-9)
        assert largest_difference(trainer.state_dict(), after.state_dict()) < 1e-9
        assert torch.equal(trainer.state_dict()["m.running_mean"], net.m.running_mean)


@pytest.mark.parametrize("how", ["dataparallel", "server"])
def test_whoever_owns_weights_pays_for_lending_them(how):
    """An update of 90 for every filter: plus a third for each of two borrowers, plus a snapshot of as much again."""
    _, graph = small()
    plan = planned(graph, "hybrid", 3, how, blocks=1, row_blocks=3, batch=6)
    counted = count_flops(graph, 6)
    costs = tuple(replace(cost, filter=replace(cost.filter, update=90.0)) for cost in counted.layers)
    program = lower(graph, plan, replace(counted, layers=costs, costs="measured", unit="us"))
    learners = [layer for layer in graph.layers if layer.parameter_bytes]
    updates = [part.update for part in program.parts]
    assert sum(updates) == pytest.approx((90 + 60 + 90) * sum(layer.num_filters for layer in learners), abs=1)
    assert (updates[1:] == [0, 0]) == (how == "server")
    free = lower(graph, plan, replace(counted, costs="measured", unit="us"))
    for part, without in zip(program.parts, free.parts, strict=True):
        joining = sum(s.forward for s in part.segments) - sum(s.forward for s in without.segments)
        wanted = 0 if how == "server" else 90 * sum(layer.num_filters for layer in learners)
        assert joining == pytest.approx(wanted, abs=1)
