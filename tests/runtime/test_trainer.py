"""What a trainer offers beside async steps: micro-batches, averaging, clipping, schedulers, prediction."""

import threading

import pytest
import torch
from capture_models import captured, model
from handmade import TWO_LINEARS, ZIGZAG, batches, squared, state_of
from program_cases import planned, trainer_of
from torch import nn
from torch.nn import functional as F
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

import hyperplace
from hyperplace.errors import TrainingError, UsageError
from hyperplace.runtime import RunSettings, Trainer, Training


def sgd(parameters):
    return torch.optim.SGD(parameters, lr=0.1, momentum=0.9)


def make(made=ZIGZAG, training=None, **settings):
    chosen = RunSettings(**{"schedule": "async", "in_flight": 2, **settings})
    return Trainer(made, state_of(made), training=training or Training(sgd), loss=squared, settings=chosen)


def plain(num_batches, optimizer=sgd, after_step=lambda module: None, clip=None):
    """Return the zigzag's weights after a plain loop."""
    leaves = nn.ParameterDict({name: nn.Parameter(tensor) for name, tensor in state_of(ZIGZAG).items()})
    stepper = optimizer(leaves.parameters())
    for x, y in batches(num_batches):
        u = x @ leaves["a"]
        squared((u + torch.tanh(u @ leaves["b"])) @ leaves["c"], y).backward()
        if clip:
            for group in clip:
                nn.utils.clip_grad_norm_([leaves[name] for name in group], 0.1)
        stepper.step()
        stepper.zero_grad()
        after_step(leaves)
    return {name: leaf.detach() for name, leaf in leaves.items()}


def same(one, other, tolerance=1e-12):
    return all(torch.allclose(one[name], other[name], rtol=0, atol=tolerance) for name in other)


@pytest.mark.parametrize("micro_batches", [1, 2, 3, 4])
@pytest.mark.parametrize("in_flight", [1, 3])
def test_sync_gives_the_gradients_of_the_whole_mini_batch(micro_batches, in_flight):
    with make(schedule="sync", micro_batches=micro_batches, in_flight=in_flight) as trainer:
        losses = [trainer.step(x, y) for x, y in batches(4)]
        assert all(loss.is_ready for loss in losses)
        assert same(trainer.state_dict(), plain(4))


def test_losses_are_there_when_asked():
    with make(in_flight=3) as trainer:
        losses = [trainer.step(x, y) for x, y in batches(5)]
        assert "under way" in repr(losses[-1]) or losses[-1].is_ready
        assert losses[-1].item() == float(losses[-1]) > 0
        assert all(loss.is_ready for loss in losses)


def test_gradients_are_clipped_per_part():
    with make(training=Training(sgd, clip_part_norm=0.1), in_flight=1) as trainer:
        for x, y in batches(5):
            trainer.step(x, y)
        assert same(trainer.state_dict(), plain(5, clip=[("a", "c"), ("b",)]))


def test_a_scheduler_steps_after_every_update():
    def scheduler(optimizer):
        return torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)

    made = []

    def both(parameters):
        optimizer = sgd(parameters)
        made.append(scheduler(optimizer))
        return optimizer

    with make(training=Training(sgd, scheduler=scheduler), in_flight=1) as trainer:
        for x, y in batches(5):
            trainer.step(x, y)
        assert same(trainer.state_dict(), plain(5, both, lambda module: made[0].step()))


def test_weights_are_averaged():
    def average(module):
        return AveragedModel(module, multi_avg_fn=get_ema_multi_avg_fn(0.5))

    kept = []

    def update(module):
        kept.append(kept[0] if kept else average(module))
        kept[0].update_parameters(module)

    with make(training=Training(sgd, average=average), in_flight=1) as trainer:
        for x, y in batches(5):
            trainer.step(x, y)
        trainer.flush()
        wanted = plain(5, after_step=update)
        assert same(trainer.state_dict(), wanted)
        averaged = dict(kept[0].module.items())
        assert same(trainer.averaged_state_dict(), {name: t.detach() for name, t in averaged.items()})


def test_dropout_depends_on_the_seed_alone():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Conv2d(3, 8, 3), nn.Linear(8 * 16, 4)

        def forward(self, x):
            return self.b(F.dropout(F.dropout2d(F.relu(self.a(x)), 0.3).flatten(1), 0.5))

    torch.manual_seed(0)
    net, x, y = Net(), torch.randn(4, 3, 6, 6), torch.randint(4, (4,))
    plan = hyperplace.place(net, x, k=2, imbalance=1.0, batch=4, partitioner="incremental")

    def losses(seed):
        with hyperplace.compile(net, plan, optimizer=sgd, loss=F.cross_entropy, seed=seed) as trainer:
            values = [trainer.step(x, y) for _ in range(6)]
            trainer.flush()
            quiet = trainer.predict(x)
            assert torch.equal(quiet, trainer.predict(x))
            return [value.item() for value in values]

    first = losses(0)
    assert first == losses(0)
    assert first != losses(1)
    assert len(set(first)) == 6


def test_odd_inputs_are_refused_before_any_part_sees_them():
    with make() as trainer:
        for wrong in [(torch.zeros(4, 3), None), (torch.zeros(4, 2), torch.zeros(4, 2), None), ("x", None), (None,)]:
            with pytest.raises(UsageError, match="zigzag wants inputs of shape"):
                trainer.step(*wrong)
        with pytest.raises(UsageError, match="at least 1"):
            trainer.step(torch.zeros(0, 2), None)
        trainer.step(*batches(1)[0])
        trainer.flush()


def test_wrong_settings_are_refused():
    with pytest.raises(UsageError, match="'fast' is unknown"):
        RunSettings("fast")
    with pytest.raises(UsageError, match="in_flight 0"):
        RunSettings(in_flight=0)
    with pytest.raises(UsageError, match="sync schedule"):
        RunSettings(micro_batches=2)
    with pytest.raises(UsageError, match="1 devices for 2 parts"):
        make(devices=("cpu",))


def test_a_state_dict_of_another_model_is_refused():
    with make() as trainer, pytest.raises(UsageError, match="no 'a'"):
        trainer.load_state_dict(state_of(TWO_LINEARS))


def test_a_closed_trainer_says_so_and_leaves_no_thread():
    before = threading.active_count()
    trainer = make()
    trainer.close()
    trainer.close()
    assert threading.active_count() == before
    with pytest.raises(TrainingError, match="closed"):
        trainer.step(*batches(1)[0])
    assert same(trainer.state_dict(), state_of(ZIGZAG))


def test_a_timeline_shows_every_segment_of_every_mini_batch():
    with make(record=True) as trainer:
        for x, y in batches(5):
            trainer.step(x, y)
        timeline = trainer.timeline()
    kinds = [(e.part, e.kind, e.batch) for e in timeline.events if e.kind != "wait"]
    for part, segments in ((0, 2), (1, 1)):
        for batch in range(5):
            assert kinds.count((part, "forward", batch)) == kinds.count((part, "backward", batch)) == segments
            assert kinds.count((part, "update", batch)) == 1
    assert (timeline.busy_us > 0).all()


@pytest.mark.parametrize("name", ["residual_in_place", "bn_after_concat"])
def test_compiling_from_python_needs_only_the_model_and_its_plan(name):
    net, inputs = model(name)
    plan = hyperplace.place(net, inputs, k=2, imbalance=1.0, batch=inputs[0].shape[0], partitioner="horizontal")
    target = torch.zeros(())

    def loss(outputs, target):
        return (outputs**2).mean() + target

    with hyperplace.compile(net, plan, optimizer=sgd, loss=loss, schedule="sync") as trainer:
        first = trainer.step(*inputs, target)
        assert trainer.settings.micro_batches == 1, "batch norm sees whole mini-batches unless told otherwise"
        assert first.item() == pytest.approx(loss(net(*inputs), target).item(), rel=1e-9)
        net.load_state_dict(trainer.state_dict())


def test_rows_may_differ_from_the_plan():
    net, (x,) = model("linear_after_flatten")
    graph = captured("linear_after_flatten")
    with trainer_of(graph, planned(graph, "fine", 3, "scattered"), net, squared, in_flight=2) as trainer:
        for rows in (1, 5, 2):
            trainer.step(torch.randn(rows, *x.shape[1:], dtype=x.dtype), torch.zeros(rows, 2, dtype=x.dtype))
        assert trainer.predict(torch.cat([x, x, x])).shape == (6, 2)
