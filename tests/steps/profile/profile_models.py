"""Small models for the tests of the profile step: one per kind of layer that is odd to run by itself."""

import torch
import torch.nn.functional as F
from torch import nn

from hyperplace.steps.capture import capture


class Net(nn.Module):
    """A model whose forward is the given function of (members, input)."""

    def __init__(self, function, *members):
        super().__init__()
        self.members = nn.ModuleList(members)
        self.function = function

    def forward(self, x):
        return self.function(self.members, x)


def graph_of(function, *members, shape=(2, 4, 6, 6)):
    """Return the graph of a function of (members, input), captured without memory or time."""
    net = Net(function, *members).to("meta")
    return capture(net, torch.empty(shape, device="meta"))


def chain(*modules, shape=(2, 4, 6, 6)):
    return graph_of(lambda members, x: nn.Sequential(*members)(x), *modules, shape=shape)


def residual():
    def forward(m, x):
        y = F.relu_(m[1](m[0](x)))
        z = m[2](y)
        z += y
        return F.relu_(z)

    return graph_of(forward, nn.Conv2d(4, 4, 1), nn.BatchNorm2d(4), nn.Conv2d(4, 4, 1))


def concat_batch_norm():
    return graph_of(
        lambda m, x: m[3](F.relu(m[2](torch.cat([m[0](x), m[1](x)], 1)))),
        nn.Conv2d(4, 3, 1),
        nn.Conv2d(4, 5, 1),
        nn.BatchNorm2d(8),
        nn.Conv2d(8, 2, 1),
    )


def gate():
    def forward(m, x):
        y = m[0](x)
        return y * torch.sigmoid(m[2](F.silu(m[1](F.adaptive_avg_pool2d(y, 1)))))

    return graph_of(forward, nn.Conv2d(4, 6, 1), nn.Conv2d(6, 2, 1), nn.Conv2d(2, 6, 1))


def baked_rows():
    return graph_of(lambda m, x: m[1](m[0](x).view(2, -1)), nn.Conv2d(4, 3, 1), nn.Linear(108, 5), shape=(2, 4, 6, 6))


def dropout_and_flatten():
    return chain(nn.Conv2d(4, 3, 3), nn.ReLU(), nn.Dropout(), nn.Flatten(), nn.Linear(48, 5), nn.Dropout())


def lstm():
    return graph_of(
        lambda m, x: m[1](m[0](x)[0].flatten(1)),
        nn.LSTM(4, 3, batch_first=True),
        nn.Linear(15, 2),
        shape=(2, 5, 4),
    )


def attention():
    return graph_of(
        lambda m, x: m[1](x + m[0](x, x, x, need_weights=False)[0]),
        nn.MultiheadAttention(4, 2, batch_first=True),
        nn.LayerNorm(4),
        shape=(2, 5, 4),
    )


def norm_of_one_pixel():
    return chain(nn.Conv2d(4, 3, 1), nn.AdaptiveAvgPool2d(1), nn.BatchNorm2d(3))


ODD = {
    "residual": residual,
    "concat_batch_norm": concat_batch_norm,
    "gate": gate,
    "baked_rows": baked_rows,
    "dropout_and_flatten": dropout_and_flatten,
    "lstm": lstm,
    "attention": attention,
    "norm_of_one_pixel": norm_of_one_pixel,
    "depthwise": lambda: chain(nn.Conv2d(4, 4, 3, groups=4), nn.Conv2d(4, 8, 3, groups=4)),
    "weight_norm": lambda: chain(nn.utils.parametrizations.weight_norm(nn.Conv2d(4, 3, 3))),
    "pixel_shuffle": lambda: chain(nn.Conv2d(4, 8, 1), nn.PixelShuffle(2), nn.Conv2d(2, 3, 1)),
}

SLICED = {
    "conv1d": lambda: chain(nn.Conv1d(4, 6, 3), shape=(2, 4, 9)),
    "conv2d": lambda: chain(nn.Conv2d(4, 6, 3, stride=2, padding=1)),
    "conv2d of odd numbers": lambda: chain(nn.Conv2d(5, 7, 3, bias=False), shape=(2, 5, 6, 6)),
    "conv3d": lambda: chain(nn.Conv3d(4, 6, 2), shape=(2, 4, 4, 4, 4)),
    "grouped": lambda: chain(nn.Conv2d(6, 9, 3, groups=3), shape=(2, 6, 6, 6)),
    "transposed": lambda: chain(nn.ConvTranspose2d(4, 6, 2, stride=2)),
    "transposed grouped": lambda: chain(nn.ConvTranspose2d(4, 6, 2, groups=2)),
    "linear": lambda: chain(nn.Linear(8, 6), shape=(2, 8)),
}
