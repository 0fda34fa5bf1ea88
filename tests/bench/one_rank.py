"""One rank of two that train a small net by torch's means: `python one_rank.py FOLDER` writes what they learn."""

import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional

from hyperplace.bench.outside import DataParallel, Pipeline

WAYS = ("ddp", "gpipe", "1f1b")
ROWS, CUTS, MICRO_BATCHES = 8, (2,), 4


def net() -> nn.Sequential:
    torch.manual_seed(0)
    features = nn.Sequential(nn.Conv2d(1, 4, 3), nn.Tanh(), nn.Conv2d(4, 4, 3), nn.Tanh(), nn.Flatten())
    return nn.Sequential(features, nn.Linear(64, 5))


def minibatches() -> list[tuple[torch.Tensor, torch.Tensor]]:
    generator = torch.Generator().manual_seed(1)
    return [
        (torch.randn(ROWS, 1, 8, 8, generator=generator), torch.randint(5, (ROWS,), generator=generator))
        for _ in range(3)
    ]


def sgd(parameters) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=0.1, momentum=0.9)


def learner(way: str, model: nn.Module):
    if way == "ddp":
        return DataParallel(model, sgd, functional.cross_entropy)
    return Pipeline(model, sgd, functional.cross_entropy, way=way, cuts=CUTS, micro_batches=MICRO_BATCHES)


if __name__ == "__main__":
    dist.init_process_group("gloo")
    for way in WAYS:
        model = net()
        learning = learner(way, model)
        losses = [learning.step(x, y) for x, y in minibatches()]
        torch.save({"losses": losses, "model": model.state_dict()}, f"{sys.argv[1]}/{way}-{dist.get_rank()}.pt")
    dist.barrier()
    dist.destroy_process_group()
