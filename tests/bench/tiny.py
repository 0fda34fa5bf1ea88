"""A net small enough that a bench of everything takes seconds: `tests/bench/tiny.py:tiny`, images of 1x8x8."""

import torch
from torch import nn


def tiny() -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(288, 10)
    )


class Branched(nn.Module):
    """No nn.Sequential, so that nothing says where to cut it into stages."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two, self.last = nn.Conv2d(1, 4, 3), nn.Conv2d(1, 4, 3), nn.Linear(144, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(torch.relu(self.one(x) + self.two(x)).flatten(1))
