"""MobileNetV2 (Sandler et al., 2018): inverted residuals around depthwise convolutions, ReLU6.

Parameter names are the well-known ones (features.N.conv.M, classifier.1).
"""

from collections import OrderedDict
from dataclasses import dataclass

from torch import Tensor, nn


@dataclass(frozen=True)
class Stage:
    """A run of blocks of one width; the first block takes the stride."""

    expansion: int
    filters: int
    num_blocks: int
    stride: int


STEM_FILTERS = 32
HEAD_FILTERS = 1280
STAGES = (
    Stage(expansion=1, filters=16, num_blocks=1, stride=1),
    Stage(expansion=6, filters=24, num_blocks=2, stride=2),
    Stage(expansion=6, filters=32, num_blocks=3, stride=2),
    Stage(expansion=6, filters=64, num_blocks=4, stride=2),
    Stage(expansion=6, filters=96, num_blocks=3, stride=1),
    Stage(expansion=6, filters=160, num_blocks=3, stride=2),
    Stage(expansion=6, filters=320, num_blocks=1, stride=1),
)


def mobilenet_v2(num_classes: int = 1000) -> nn.Sequential:
    """Make MobileNetV2; it pools globally, so any image size fits."""
    features = nn.Sequential(_conv(3, STEM_FILTERS, 3, stride=2))
    channels = STEM_FILTERS
    for stage in STAGES:
        for index in range(stage.num_blocks):
            stride = stage.stride if index == 0 else 1
            features.append(InvertedResidual(channels, stage.filters, stage.expansion, stride))
            channels = stage.filters
    features.append(_conv(channels, HEAD_FILTERS, 1))
    classifier = nn.Sequential(nn.Dropout(0.2), nn.Linear(HEAD_FILTERS, num_classes))
    return nn.Sequential(
        OrderedDict(features=features, avgpool=nn.AdaptiveAvgPool2d(1), flatten=nn.Flatten(), classifier=classifier)
    )


class InvertedResidual(nn.Module):
    """Widen by 1x1, filter each channel alone, narrow by 1x1; add the input where its shape fits."""

    def __init__(self, channels: int, filters: int, expansion: int, stride: int) -> None:
        super().__init__()
        hidden = channels * expansion
        self.conv = nn.Sequential()
        if expansion != 1:
            self.conv.append(_conv(channels, hidden, 1))
        self.conv.append(_conv(hidden, hidden, 3, stride=stride, groups=hidden))
        self.conv.append(nn.Conv2d(hidden, filters, 1, bias=False))
        self.conv.append(nn.BatchNorm2d(filters))
        self.has_shortcut = stride == 1 and channels == filters

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.conv(x)
        return x + out if self.has_shortcut else out


def _conv(channels: int, filters: int, kernel: int, *, stride: int = 1, groups: int = 1) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(channels, filters, kernel, stride, padding=kernel // 2, groups=groups, bias=False),
        nn.BatchNorm2d(filters),
        nn.ReLU6(),
    )
