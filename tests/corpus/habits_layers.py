"""Layers: convolutions of every kind, pooling and resizing, and the blocks made of them."""

import torch
from habit import bn, conv, habit, linear
from torch import nn
from torch.nn import functional as F


@habit(d=conv(4, 6), n=bn(6), e=conv(6, 8, stride=2), u=lambda: nn.ConvTranspose2d(8, 6, 2, stride=2), o=conv(12, 3))
def unet(net, x):
    skip = F.relu(net.n(net.d(x)))
    return net.o(torch.cat([skip, net.u(F.relu(net.e(skip)))], 1))


@habit(a=conv(4, 3), b=conv(7, 3), c=conv(10, 3), n=bn(7))
def dense_block(net, x):
    x = torch.cat([x, net.a(x)], 1)
    x = torch.cat([x, net.b(F.relu(net.n(x)))], 1)
    return net.c(x)


@habit(a=conv(), r=conv(6, 2, 1), e=conv(2, 6, 1), b=conv(6, 3))
def squeeze_and_excitation(net, x):
    y = net.a(x)
    return net.b(y * torch.sigmoid(net.e(F.relu(net.r(F.adaptive_avg_pool2d(y, 1))))))


@habit(a=conv(4, 4), n=bn(4), b=conv(4, 4), m=bn(4), c=linear(4, 3))
def residual_block(net, x):
    y = F.relu(net.m(net.b(F.relu(net.n(net.a(x))))) + x)
    return net.c(y.mean((2, 3)))


@habit(a=conv(4, 6, groups=2), b=conv(6, 6, groups=3), c=conv(6, 3))
def grouped(net, x):
    return net.c(F.relu(net.b(F.relu(net.a(x)))))


@habit(a=conv(4, 12, 1), d=conv(12, 12, groups=12), c=conv(12, 4, 1))
def depthwise_separable(net, x):
    return x + net.c(F.relu6(net.d(F.relu6(net.a(x)))))


@habit(a=lambda: nn.ConvTranspose2d(4, 6, 3, stride=2, padding=1, output_padding=1), b=conv(6, 3))
def transposed(net, x):
    return net.b(F.relu(net.a(x)))


@habit(a=lambda: nn.ConvTranspose2d(4, 6, 3, groups=2), b=conv(6, 3))
def transposed_grouped(net, x):
    return net.b(F.relu(net.a(x)))


@habit(a=conv(4, 6, dilation=2, padding=2), b=conv(6, 3, dilation=3, padding=3))
def dilated(net, x):
    return net.b(F.relu(net.a(x)))


@habit(a=conv(4, 6, padding="same"), b=conv(6, 3, padding="valid"))
def padding_by_name(net, x):
    return net.b(F.relu(net.a(x)))


@habit(
    a=conv(4, 6, padding_mode="reflect"), b=conv(6, 3, padding_mode="circular"), c=conv(3, 3, padding_mode="replicate")
)
def padding_modes(net, x):
    return net.c(net.b(F.relu(net.a(x))))


@habit((4, 12), a=lambda: nn.Conv1d(4, 6, 3), n=lambda: nn.BatchNorm1d(6), b=lambda: nn.Conv1d(6, 3, 3))
def one_dimension(net, x):
    return F.avg_pool1d(net.b(F.max_pool1d(F.relu(net.n(net.a(x))), 2)), 2)


@habit((3, 4, 4, 4), a=lambda: nn.Conv3d(3, 6, 3, padding=1), n=lambda: nn.BatchNorm3d(6), b=lambda: nn.Conv3d(6, 3, 1))
def three_dimensions(net, x):
    return F.avg_pool3d(net.b(F.max_pool3d(F.relu(net.n(net.a(x))), 2)), 2)
