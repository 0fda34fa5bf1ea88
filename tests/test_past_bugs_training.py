"""What once went wrong while a model was trained, and what that did to a user."""

import gc
import weakref

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import hyperplace
from hyperplace.errors import ModelError, UsageError


def sgd(parameters):
    return torch.optim.SGD(parameters, lr=0.1)


def small():
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Dropout(0.5), nn.Flatten(), nn.Linear(8 * 16, 4))


X, Y = torch.randn(4, 3, 6, 6, generator=torch.Generator().manual_seed(1)), torch.tensor([0, 1, 2, 3])


def plan_of(model, sample=X, **settings):
    words = {"k": 2, "imbalance": 1.0, "batch": len(sample), "partitioner": "horizontal"} | settings
    return hyperplace.place(model, sample, **words)


def trainer_of(model, **settings):
    return hyperplace.compile(model, plan_of(model), **{"optimizer": sgd, "loss": F.cross_entropy, **settings})


def test_predictions_in_training_mode_draw_masks_of_their_own():
    """Monte Carlo dropout had a variance of nothing: every call dropped the same values."""

    def predictions(seed):
        with trainer_of(small(), seed=seed) as trainer:
            return [trainer.predict(X, training=True) for _ in range(3)]

    first = predictions(0)
    assert len({tuple(p.flatten().tolist()) for p in first}) == 3
    assert all(torch.equal(one, other) for one, other in zip(first, predictions(0), strict=True)), "repeatable"
    assert not torch.equal(first[0], predictions(1)[0])


def test_a_loss_formats_like_a_number():
    """`print(f"{loss:.3f}")`, the first line of most training loops, ended in TypeError."""
    with trainer_of(small()) as trainer:
        assert float(f"{trainer.step(X, Y):.3f}") > 0


@pytest.mark.parametrize("schedule", ["async", "sync"])
def test_clip_norm_is_of_the_whole_model(schedule):
    """Every part clipped by its own norm: a run with clip_norm was another one than the plain loop's, in silence."""
    model = nn.Sequential(nn.Flatten(), nn.Linear(108, 8), nn.Tanh(), nn.Linear(8, 4))
    with trainer_of(model, clip_norm=0.1, schedule=schedule, in_flight=1) as trainer:
        trainer.step(X, Y)
        found = trainer.state_dict()
    F.cross_entropy(model(X), Y).backward()
    nn.utils.clip_grad_norm_(model.parameters(), 0.1)
    sgd(model.parameters()).step()
    assert all(torch.allclose(found[name], tensor, atol=1e-7) for name, tensor in model.state_dict().items())


def test_autocast_around_a_step_reaches_the_parts():
    """Parts run in threads of their own, where the caller's autocast was not seen: all ran in float32, in silence."""
    seen = []

    def loss(output, target):
        seen.append(output.dtype)
        return F.cross_entropy(output, target)

    with trainer_of(small(), loss=loss) as trainer, torch.autocast("cpu", dtype=torch.bfloat16):
        trainer.step(X, Y).item()
    assert seen == [torch.bfloat16]


def test_outputs_of_complex_numbers_learn():
    """Complex outputs got no gradient: the parameters before them stayed as they were, in silence."""

    class Waves(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(8, 8), nn.Linear(8, 8)

        def forward(self, x):
            return torch.fft.fft(self.b(torch.tanh(self.a(x))))

    def power(output, target):
        return (output.abs() ** 2).mean()

    torch.manual_seed(0)
    model, x = Waves(), torch.randn(4, 8)
    plan = plan_of(model, x, partitioner="layerwise")
    with hyperplace.compile(model, plan, optimizer=sgd, loss=power, in_flight=1, check_nan=True) as trainer:
        trainer.step(x, None)
        found = trainer.state_dict()
    power(model(x), None).backward()
    sgd(model.parameters()).step()
    assert all(torch.allclose(found[name], tensor, atol=1e-6) for name, tensor in model.state_dict().items())


def test_a_model_without_values_is_not_trained():
    """A model on the meta device ended in torch's NotImplementedError, deep within a part."""
    with torch.device("meta"):
        model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.Flatten(), nn.Linear(8 * 16, 4))
    plan = plan_of(small())
    with pytest.raises(ModelError, match=r"0\.weight is on the meta device and has no values to train"):
        hyperplace.compile(model, plan, optimizer=sgd, loss=F.cross_entropy)


WRONG_RUNS = {
    "no such GPU": ({"devices": ("cuda:0", "cuda:99")}, r"devices: cuda:99 is not here: this machine has \d+ GPUs"),
    "one GPU for all": ({"devices": "cuda:99"}, "devices: cuda:99 is not here"),
    "no device": ({"devices": ("cpu", "gpu")}, "devices: gpu is no device; give cpu or cuda:0"),
    "another device": ({"devices": ("cpu", "mps")}, "devices: mps is not supported"),
    "in_flight 0": ({"in_flight": 0}, "in_flight 0 is less than 1"),
    "in_flight text": ({"in_flight": "4"}, "in_flight '4' is str, not a whole number; give in_flight=4"),
    "in_flight fraction": ({"in_flight": 2.5}, "in_flight 2.5 is float, not a whole number; give in_flight=1 or more"),
    "micro_batches 0": ({"schedule": "sync", "micro_batches": 0}, "micro_batches 0 is less than 1"),
    "more micro-batches than rows": ({"schedule": "sync", "micro_batches": 5}, "5 are more than the 4 rows"),
    "seed": ({"seed": None}, "seed None is NoneType, not a whole number"),
    "parts_per_process 0": ({"parts_per_process": 0}, "parts_per_process 0 is less than 1; leave it out"),
    "parts_per_process text": ({"parts_per_process": "2"}, "parts_per_process '2' is str, not a whole number"),
    "parts_per_process of nobody": (
        {"parts_per_process": 3},
        "parts_per_process 3 is for several processes, but this one is alone and has all 2 parts; start it under",
    ),
    "threads": ({"threads": "1"}, "threads '1' is str, not a whole number; give threads=1"),
}


@pytest.mark.parametrize("what", WRONG_RUNS)
def test_a_wrong_argument_of_compile_is_named(what):
    """These ended in TypeError, in RuntimeError from a thread, in AssertionError, or were taken for something else."""
    settings, message = WRONG_RUNS[what]
    with pytest.raises(UsageError, match=message):
        trainer_of(small(), **settings)


WRONG_PLANS = {
    "k text": ({"k": "2"}, "k '2' is str, not a whole number; give k=2"),
    "k fraction": ({"k": 2.0}, "k 2.0 is float, not a whole number; give k=2"),
    "imbalance text": ({"imbalance": "a"}, "imbalance 'a' is str, not a number; give imbalance=0.1"),
    "batch": ({"batch": "4"}, "batch '4' is str, not a whole number"),
    "blocks": ({"blocks": "all"}, "blocks 'all' is no number of blocks; .* None for one per filter"),
    "two": ({"k": "2", "imbalance": "a"}, "k '2' .*; imbalance 'a' is"),
}


@pytest.mark.parametrize("what", WRONG_PLANS)
def test_a_wrong_argument_of_place_is_named(what):
    """`k='2'` ended in TypeError: '<' not supported between instances of 'str' and 'int'."""
    settings, message = WRONG_PLANS[what]
    with pytest.raises(UsageError, match=message):
        plan_of(small(), **settings)


def test_an_optimizer_that_was_made_already_is_refused_with_the_remedy():
    """An instance instead of a factory ended in TypeError: 'SGD' object is not callable."""
    model = small()
    with pytest.raises(UsageError, match="give a function, such as optimizer=lambda parameters"):
        trainer_of(model, optimizer=sgd(model.parameters()))


def test_an_optimizer_that_goes_by_whole_tensors_is_refused_where_they_are_split():
    """Adafactor normalises by the tensor it is given: on slices it trained another model, in silence."""
    with pytest.raises(UsageError, match="Adafactor does not update element by element"):
        trainer_of(small(), optimizer=torch.optim.Adafactor)


def test_a_scheduler_that_wants_a_metric_is_refused_with_the_remedy():
    """ReduceLROnPlateau ended in TypeError in a part, at the first update."""
    with pytest.raises(UsageError, match="ReduceLROnPlateau, which cannot step by itself"):
        trainer_of(small(), scheduler=torch.optim.lr_scheduler.ReduceLROnPlateau)


def test_a_loss_with_parameters_is_refused():
    """They were never updated, while the plain loop trains them."""

    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(torch.ones(()))

        def forward(self, output, target):
            return self.scale * F.cross_entropy(output, target)

    with pytest.raises(UsageError, match=r"has parameters of its own \(scale\)"):
        trainer_of(small(), loss=Scaled())


def test_a_trainer_with_copied_weights_is_forgotten_when_it_is_closed():
    """Hooks that send gradients early kept the weights of every trainer for ever: a bench of VGG16 took 5 GB."""
    net = small()
    plan = plan_of(net, grain="hybrid", partitioner="dataparallel")
    with hyperplace.compile(net, plan, optimizer=sgd, loss=F.cross_entropy) as trainer:
        for _ in range(3):
            trainer.step(X, Y)
    kept = weakref.ref(trainer.ranks[0].weights)
    gc.disable()  # it would not find them anyway
    try:
        del trainer
        assert kept() is None
    finally:
        gc.enable()
