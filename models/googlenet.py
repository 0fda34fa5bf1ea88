"""GoogLeNet (Szegedy et al., 2014) with batch norm and without the auxiliary heads.

It has the 6,624,904 parameters of the well-known PyTorch version, and its parameter names: there the "5x5"
branch of an inception block has a 3x3 kernel (5x5 kernels would make 7,005,832).
"""

from collections import OrderedDict
from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Widths:
    """Filters of an inception block; `narrow_*` are the 1x1 convolutions before the wide ones."""

    one: int
    narrow_three: int
    three: int
    narrow_five: int
    five: int
    pooled: int

    @property
    def total(self) -> int:
        return self.one + self.three + self.five + self.pooled


STAGES = {
    "3": (Widths(64, 96, 128, 16, 32, 32), Widths(128, 128, 192, 32, 96, 64)),
    "4": (
        Widths(192, 96, 208, 16, 48, 64),
        Widths(160, 112, 224, 24, 64, 64),
        Widths(128, 128, 256, 24, 64, 64),
        Widths(112, 144, 288, 32, 64, 64),
        Widths(256, 160, 320, 32, 128, 128),
    ),
    "5": (Widths(256, 160, 320, 32, 128, 128), Widths(384, 192, 384, 48, 128, 128)),
}


def googlenet(num_classes: int = 1000) -> nn.Sequential:
    """Make GoogLeNet; it pools globally, so any image of at least 15x15 fits."""
    model = nn.Sequential(
        OrderedDict(
            conv1=_conv(3, 64, 7, stride=2),
            maxpool1=nn.MaxPool2d(3, stride=2, ceil_mode=True),
            conv2=_conv(64, 64, 1),
            conv3=_conv(64, 192, 3),
            maxpool2=nn.MaxPool2d(3, stride=2, ceil_mode=True),
        )
    )
    channels = 192
    for stage, blocks in STAGES.items():
        for letter, widths in zip("abcde", blocks, strict=False):
            model.add_module(f"inception{stage}{letter}", Inception(channels, widths))
            channels = widths.total
        if stage != "5":
            kernel = 3 if stage == "3" else 2
            model.add_module(f"maxpool{stage}", nn.MaxPool2d(kernel, stride=2, ceil_mode=True))
    model.add_module("avgpool", nn.AdaptiveAvgPool2d(1))
    model.add_module("flatten", nn.Flatten())
    model.add_module("dropout", nn.Dropout(0.2))
    model.add_module("fc", nn.Linear(channels, num_classes))
    return model


class Inception(nn.Module):
    """Four branches over the same input, joined along the channels."""

    def __init__(self, channels: int, widths: Widths) -> None:
        super().__init__()
        self.branch1 = _conv(channels, widths.one, 1)
        self.branch2 = nn.Sequential(
            _conv(channels, widths.narrow_three, 1), _conv(widths.narrow_three, widths.three, 3)
        )
        self.branch3 = nn.Sequential(_conv(channels, widths.narrow_five, 1), _conv(widths.narrow_five, widths.five, 3))
        self.branch4 = nn.Sequential(nn.MaxPool2d(3, stride=1, padding=1), _conv(channels, widths.pooled, 1))

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([self.branch1(x), self.branch2(x), self.branch3(x), self.branch4(x)], dim=1)


def _conv(channels: int, filters: int, kernel: int, stride: int = 1) -> nn.Sequential:
    return nn.Sequential(
        OrderedDict(
            conv=nn.Conv2d(channels, filters, kernel, stride, padding=kernel // 2, bias=False),
            bn=nn.BatchNorm2d(filters, eps=0.001),
            relu=nn.ReLU(),
        )
    )
