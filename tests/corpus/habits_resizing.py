"""Resizing: interpolation, shuffles and pools."""

from habit import conv, habit
from torch import nn
from torch.nn import functional as F

for _mode in ("nearest", "nearest-exact", "bilinear", "bicubic", "area"):

    @habit(name=f"interpolate_{_mode.replace('-', '_')}", a=conv(), b=conv(6, 3))
    def _(net, x, mode=_mode):
        return net.b(F.interpolate(net.a(x), scale_factor=2, mode=mode))


@habit(a=conv(stride=2), b=conv(4, 6), c=conv(6, 3))
def interpolate_to_the_size_of_another(net, x):
    return net.c(F.interpolate(net.a(x), size=x.shape[2:], mode="bilinear", align_corners=True) + net.b(x))


@habit((4, 8), (3, 4, 4, 4), a=lambda: nn.Conv1d(4, 6, 3), b=lambda: nn.Conv3d(3, 6, 1))
def interpolate_linear_and_trilinear(net, x, y):
    return F.interpolate(net.a(x), 9, mode="linear"), F.interpolate(net.b(y), 5, mode="trilinear")


@habit(a=conv(4, 8), b=conv(2, 3), c=conv(12, 3))
def pixel_shuffle_and_unshuffle(net, x):
    y = net.b(F.pixel_shuffle(net.a(x), 2))
    return net.c(F.pixel_unshuffle(y, 2))


@habit(a=conv(4, 8), s=lambda: nn.ChannelShuffle(2), b=conv(8, 6, groups=2))
def channel_shuffle_module(net, x):
    return net.b(net.s(net.a(x)))


@habit(a=conv(4, 8), b=conv(8, 6, groups=2))
def channel_shuffle_by_views(net, x):
    y = net.a(x)
    n, c, h, w = y.shape
    return net.b(y.view(n, 2, c // 2, h, w).transpose(1, 2).reshape(n, c, h, w))


@habit(a=conv(), b=conv(6, 3))
def pools_of_every_kind(net, x):
    y = net.a(x)
    pooled = (
        F.max_pool2d(y, 3, 2, 1)
        + F.avg_pool2d(y, 3, 2, 1)
        + F.adaptive_max_pool2d(y, 4)
        + F.lp_pool2d(y.abs() + 1, 2, 2)
    )
    return net.b(pooled + F.adaptive_avg_pool2d(y, 4))


@habit(a=conv(), b=conv(6, 6), c=conv(6, 3))
def max_pool_with_indices_and_unpool(net, x):
    y, indices = F.max_pool2d(net.a(x), 2, return_indices=True)
    return net.c(F.max_unpool2d(net.b(y), indices, 2))
