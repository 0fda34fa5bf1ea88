"""What once went wrong while a model was trained, and what that did to a user."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import hyperplace


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
