"""Made-up images: the same every time, and learnable."""

import numpy as np
import pytest

from hyperplace.data import synthetic
from hyperplace.errors import UsageError


@pytest.mark.parametrize("shape", [(1, 28, 28), (3, 32, 32), (2, 5, 3), (4, 1, 1)])
def test_shapes_and_determinism(shape):
    images = synthetic(20, shape, 3, seed=1)
    assert (len(images), images.shape, images.num_classes) == (20, shape, 3)
    assert images == synthetic(20, shape, 3, seed=1)
    assert images != synthetic(20, shape, 3, seed=2)


@pytest.mark.parametrize("num_classes", [2, 10, 100])
def test_the_nearest_class_mean_tells_new_images_of_another_seed_apart(num_classes):
    train, test = (synthetic(20 * num_classes, (1, 16, 16), num_classes, seed) for seed in (0, 1))
    means = np.stack([train.x[train.y == label].mean(0) for label in range(num_classes)])
    distances = ((test.x[:, None] - means) ** 2).sum((2, 3, 4))
    assert (distances.argmin(1) == test.y).mean() > 0.9


def test_the_loss_of_a_linear_model_goes_down():
    import torch

    images = synthetic(200, (1, 12, 12), 5, seed=0)
    x, y = torch.tensor(images.x).flatten(1), torch.tensor(images.y)
    weight = torch.zeros(5, 144, requires_grad=True)
    losses = []
    for _ in range(20):
        loss = torch.nn.functional.cross_entropy(x @ weight.T, y)
        (gradient,) = torch.autograd.grad(loss, weight)
        weight = (weight - 0.1 * gradient).detach().requires_grad_()
        losses.append(loss.item())
    assert losses == sorted(losses, reverse=True)
    assert losses[-1] < 0.5 * losses[0]


def test_mean_and_std_are_about_right():
    images = synthetic(500, (3, 16, 16), 10, seed=0)
    assert images.x.mean() == pytest.approx(images.mean, abs=0.05)
    assert images.x.std() == pytest.approx(images.std, abs=0.05)


@pytest.mark.parametrize(
    "arguments", [(0, (1, 2, 2), 2, 0), (1, (1, 0, 2), 2, 0), (1, (1, 2, 2), 0, 0), (1, (1, 2, 2), 2, -1)]
)
def test_what_cannot_be_made(arguments):
    with pytest.raises(UsageError, match="cannot be made; give sizes of 1 or more and a seed of 0 or more"):
        synthetic(*arguments)
