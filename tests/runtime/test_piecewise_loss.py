"""Micro-batches are right only for a loss that is a mean over rows."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import hyperplace
from hyperplace.errors import TrainingError


def small():
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 5)).double()


def sgd(parameters):
    return torch.optim.SGD(parameters, lr=0.1)


def trained(model, loss, x, y, **options):
    plan = hyperplace.place(model, x, k=2, grain="coarse", partitioner="incremental")
    with hyperplace.compile(model, plan, optimizer=sgd, loss=loss, schedule="sync", **options) as trainer:
        trainer.step(x, y)
        return trainer.state_dict()


def plain(model, loss, x, y):
    model = copy.deepcopy(model)
    optimizer = sgd(model.parameters())
    loss(model(x), y).backward()
    optimizer.step()
    return model.state_dict()


def contrastive(outputs, target):
    return (outputs @ outputs.T).logsumexp(1).mean() + 0 * target.sum()


@pytest.mark.parametrize("loss", [lambda o, t: F.cross_entropy(o, t, reduction="sum"), contrastive])
def test_a_loss_that_is_no_mean_over_rows_is_refused_before_an_update(loss):
    """A sum was trained with half of its gradients, a contrastive loss with half of its rows."""
    x, y = torch.randn(6, 3, 8, 8, dtype=torch.float64), torch.randint(5, (6,))
    with pytest.raises(TrainingError, match="no mean over rows; give micro_batches=1"):
        trained(small(), loss, x, y)
    found, wanted = trained(small(), loss, x, y, micro_batches=1), plain(small(), loss, x, y)
    assert all(torch.allclose(found[name], wanted[name], rtol=1e-9) for name in wanted)


def test_rows_that_the_loss_leaves_out_keep_the_batch_in_one_piece():
    """Pieces were weighed by all their rows, also those that cross entropy leaves out."""
    x, y = torch.randn(6, 3, 8, 8, dtype=torch.float64), torch.tensor([1, -100, 2, -100, -100, 3])
    found, wanted = trained(small(), F.cross_entropy, x, y), plain(small(), F.cross_entropy, x, y)
    assert all(torch.allclose(found[name], wanted[name], rtol=1e-9) for name in wanted)
