"""Residual networks (He et al., 2015) of 18, 34, 50 and 101 layers.

Parameter names are the well-known ones (layer3.0.conv1, layer3.0.downsample.0). Bottlenecks stride in their
3x3 convolution, not in the first 1x1: the later variant that everyone uses.
"""

from collections import OrderedDict

import torch
from torch import Tensor, nn

STAGE_WIDTHS = (64, 128, 256, 512)


def resnet18(num_classes: int = 1000) -> nn.Sequential:
    return _resnet(BasicBlock, (2, 2, 2, 2), num_classes)


def resnet34(num_classes: int = 1000) -> nn.Sequential:
    return _resnet(BasicBlock, (3, 4, 6, 3), num_classes)


def resnet50(num_classes: int = 1000) -> nn.Sequential:
    return _resnet(Bottleneck, (3, 4, 6, 3), num_classes)


def resnet101(num_classes: int = 1000) -> nn.Sequential:
    return _resnet(Bottleneck, (3, 4, 23, 3), num_classes)


class BasicBlock(nn.Module):
    """Two 3x3 convolutions beside a shortcut."""

    expansion = 1

    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = _conv(channels, width, 3, stride)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = _conv(width, width, 3)
        self.bn2 = nn.BatchNorm2d(width)
        self.downsample = _shortcut(channels, width, stride)

    def forward(self, x: Tensor) -> Tensor:
        out = torch.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        return torch.relu(out + self.downsample(x))


class Bottleneck(nn.Module):
    """A 1x1 convolution that narrows, a 3x3, and a 1x1 that widens, beside a shortcut."""

    expansion = 4

    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__()
        filters = width * self.expansion
        self.conv1 = _conv(channels, width, 1)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = _conv(width, width, 3, stride)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = _conv(width, filters, 1)
        self.bn3 = nn.BatchNorm2d(filters)
        self.downsample = _shortcut(channels, filters, stride)

    def forward(self, x: Tensor) -> Tensor:
        out = torch.relu(self.bn1(self.conv1(x)))
        out = torch.relu(self.bn2(self.conv2(out)))
        out = self.bn3(self.conv3(out))
        return torch.relu(out + self.downsample(x))


Block = type[BasicBlock] | type[Bottleneck]


def _resnet(block: Block, stage_blocks: tuple[int, ...], num_classes: int) -> nn.Sequential:
    model = nn.Sequential(
        OrderedDict(
            conv1=_conv(3, 64, 7, stride=2),
            bn1=nn.BatchNorm2d(64),
            relu=nn.ReLU(),
            maxpool=nn.MaxPool2d(3, stride=2, padding=1),
        )
    )
    channels = 64
    for number, (width, num_blocks) in enumerate(zip(STAGE_WIDTHS, stage_blocks, strict=True), start=1):
        stage = nn.Sequential()
        for index in range(num_blocks):
            # The pooling before the first stage has already halved the maps.
            stage.append(block(channels, width, stride=2 if index == 0 and number > 1 else 1))
            channels = width * block.expansion
        model.add_module(f"layer{number}", stage)
    model.add_module("avgpool", nn.AdaptiveAvgPool2d(1))
    model.add_module("flatten", nn.Flatten())
    model.add_module("fc", nn.Linear(channels, num_classes))
    return model


def _conv(channels: int, filters: int, kernel: int, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(channels, filters, kernel, stride, padding=kernel // 2, bias=False)


def _shortcut(channels: int, filters: int, stride: int) -> nn.Module:
    """Pass the input on, through a strided 1x1 convolution where its shape has to change."""
    if stride == 1 and channels == filters:
        return nn.Identity()
    return nn.Sequential(_conv(channels, filters, 1, stride), nn.BatchNorm2d(filters))
