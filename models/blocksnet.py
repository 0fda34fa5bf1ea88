"""A small net with one block of every kind that placement has to understand, for tests and demonstrations.

In order: a plain convolution, parallel branches, dense concatenation, a squeeze-and-excite gate, a grouped
convolution with a residual add, a depthwise convolution, global pooling. Activations and the add work in
place, as they do in many people's models.
"""

from collections import OrderedDict

import torch
from torch import Tensor, nn


def blocksnet(num_classes: int = 10) -> nn.Sequential:
    """Make the net; it pools globally, so any image size fits."""
    return nn.Sequential(
        OrderedDict(
            stem=_conv(3, 16, 3),
            branches=Branches(16),
            pool=nn.MaxPool2d(3, stride=2, padding=1),
            dense=Dense(32, growth=8),
            gate=Gate(48, squeezed=12),
            grouped=GroupedResidual(48, groups=4),
            depthwise=_conv(48, 48, 3, stride=2, groups=48),
            pointwise=_conv(48, 64, 1),
            avgpool=nn.AdaptiveAvgPool2d(1),
            flatten=nn.Flatten(),
            fc=nn.Linear(64, num_classes),
        )
    )


class Branches(nn.Module):
    """Four inception-style branches of 8, 16, 4 and 4 filters, joined along the channels."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.one = _conv(channels, 8, 1)
        self.three = nn.Sequential(_conv(channels, 8, 1), _conv(8, 16, 3))
        self.five = nn.Sequential(_conv(channels, 2, 1), _conv(2, 4, 5))
        self.pooled = nn.Sequential(nn.MaxPool2d(3, stride=1, padding=1), _conv(channels, 4, 1))

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([self.one(x), self.three(x), self.five(x), self.pooled(x)], dim=1)


class Dense(nn.Module):
    """Two convolutions, each reading everything before it; the output holds the input and both results."""

    def __init__(self, channels: int, growth: int) -> None:
        super().__init__()
        self.first = _conv(channels, growth, 3)
        self.second = _conv(channels + growth, growth, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.cat([x, self.first(x)], dim=1)
        return torch.cat([x, self.second(x)], dim=1)


class Gate(nn.Module):
    """Squeeze and excite: scale every channel by a number computed from all channels' means."""

    def __init__(self, channels: int, squeezed: int) -> None:
        super().__init__()
        self.scale = nn.Sequential(
            nn.AdaptiveAvgPool2d(1),
            nn.Conv2d(channels, squeezed, 1),
            nn.ReLU(inplace=True),
            nn.Conv2d(squeezed, channels, 1),
            nn.Sigmoid(),
        )

    def forward(self, x: Tensor) -> Tensor:
        scale: Tensor = self.scale(x)
        return x * scale


class GroupedResidual(nn.Module):
    """A grouped convolution added to its input."""

    def __init__(self, channels: int, groups: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding=1, groups=groups, bias=False)
        self.bn = nn.BatchNorm2d(channels)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.bn(self.conv(x))
        out += x
        return torch.relu_(out)


def _conv(channels: int, filters: int, kernel: int, *, stride: int = 1, groups: int = 1) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(channels, filters, kernel, stride, padding=kernel // 2, groups=groups, bias=False),
        nn.BatchNorm2d(filters),
        nn.ReLU(inplace=True),
    )
