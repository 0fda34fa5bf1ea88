"""Networks: blocks as published, each small, where several habits meet."""

import torch
from habit import BATCH, bn, buffer, conv, frozen, habit, linear, parameter, zeros
from torch import nn
from torch.nn import functional as F


@habit(a=conv(4, 2, 1), b=conv(4, 3, 3), c=conv(4, 2, 5), o=conv(7, 3))
def inception(net, x):
    return net.o(torch.cat([net.a(x), F.relu(net.b(x)), F.max_pool2d(net.c(x), 3, 1, 1)], 1))


@habit(d=conv(4, 4, 7, groups=4), n=lambda: nn.LayerNorm(4), up=linear(4, 8), down=linear(8, 4), g=parameter(4))
def convnext(net, x):
    y = net.n(net.d(x).permute(0, 2, 3, 1))
    return x + (net.down(F.gelu(net.up(y))) * net.g).permute(0, 3, 1, 2)


@habit(a=conv(2, 2, 1), d=conv(2, 2, 3, groups=2), n=bn(2), o=conv(4, 3))
def shufflenet_unit(net, x):
    kept, worked = x.chunk(2, 1)
    y = torch.cat([kept, net.n(net.d(F.relu(net.a(worked))))], 1)
    return net.o(y.view(-1, 2, 2, 8, 8).transpose(1, 2).reshape(-1, 4, 8, 8))


@habit(p=conv(4, 3, 1), d=conv(3, 3, 3, groups=3), o=conv(6, 3))
def ghost_module(net, x):
    y = F.relu(net.p(x))
    return net.o(torch.cat([y, net.d(y)], 1))


@habit(a=conv(4, 4, stride=2), b=conv(4, 4, stride=2), l=conv(4, 3, 1), m=conv(4, 3, 1), n=conv(4, 3, 1))
def feature_pyramid(net, x):
    c1 = F.relu(net.a(x))
    c2 = F.relu(net.b(c1))
    p2 = net.n(c2)
    p1 = net.m(c1) + F.interpolate(p2, scale_factor=2)
    return {"0": net.l(x) + F.interpolate(p1, scale_factor=2), "1": p1, "2": p2}


@habit(a=conv(4, 3, 1), b=conv(4, 3, dilation=2, padding=2), p=conv(4, 3, 1), o=conv(9, 3, 1))
def atrous_pyramid(net, x):
    pooled = F.interpolate(F.relu(net.p(F.adaptive_avg_pool2d(x, 1))), size=x.shape[-2:], mode="bilinear")
    return net.o(torch.cat([F.relu(net.a(x)), F.relu(net.b(x)), pooled], 1))


@habit(a=conv(4, 6), m=conv(2, 1), one=linear(6, 2), two=linear(2, 6), o=conv(6, 3))
def channel_and_spatial_attention(net, x):
    y = net.a(x)
    gate = net.two(F.relu(net.one(y.mean((2, 3))))) + net.two(F.relu(net.one(y.amax((2, 3)))))
    y = y * gate.sigmoid()[:, :, None, None]
    return net.o(y * net.m(torch.cat([y.mean(1, keepdim=True), y.amax(1, keepdim=True)], 1)).sigmoid())


@habit(q=conv(4, 2, 1), k=conv(4, 2, 1), v=conv(4, 4, 1), g=lambda: nn.Parameter(torch.zeros(1)), o=conv(4, 3))
def non_local(net, x):
    q, k, v = net.q(x).flatten(2), net.k(x).flatten(2), net.v(x).flatten(2)
    y = (v @ (q.transpose(1, 2) @ k).softmax(-1).transpose(1, 2)).view_as(x)
    return net.o(net.g * y + x)


@habit(
    (3, 8, 8),
    e=lambda: nn.Conv2d(3, 8, 4, 4),
    c=parameter(1, 1, 8),
    p=parameter(1, 5, 8),
    q=linear(8, 24),
    o=linear(8, 3),
)
def vision_transformer(net, x):
    y = net.e(x).flatten(2).transpose(1, 2)
    y = torch.cat([net.c.expand(x.shape[0], -1, -1), y], 1) + net.p
    q, k, v = net.q(y).reshape(x.shape[0], 5, 3, 2, 4).permute(2, 0, 3, 1, 4).unbind(0)
    y = y + F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(x.shape[0], 5, 8)
    return net.o(y[:, 0])


def windows(y, size):
    """Return (rows x windows, positions, channels) of maps with channels last."""
    rows, height, width, channels = y.shape
    y = y.view(rows, height // size, size, width // size, size, channels)
    return y.permute(0, 1, 3, 2, 4, 5).reshape(-1, size * size, channels)


@habit(e=conv(4, 4, 1), q=linear(4, 12), t=parameter(16, 16), o=linear(4, 3))
def shifted_windows(net, x):
    y = net.e(x).permute(0, 2, 3, 1).roll((-2, -2), (1, 2))
    regions = x.new_zeros(1, 8, 8, 1)
    for number, rows in enumerate((slice(0, 4), slice(4, 6), slice(6, 8))):
        regions[:, rows] = number
    regions = windows(regions, 4).squeeze(-1)
    mask = (regions[:, None] != regions[:, :, None]).to(x.dtype) * -100
    q, k, v = net.q(windows(y, 4)).chunk(3, -1)
    scores = (q @ k.transpose(1, 2) + net.t).view(x.shape[0], 4, 16, 16) + mask
    y = scores.view(-1, 16, 16).softmax(-1) @ v
    return net.o(y.view(x.shape[0], -1, 4).mean(1))


@habit((2, 8, 8), a=conv(4, 6), o=conv(6, 3))
def coordinates_as_channels(net, x):
    line = torch.linspace(-1, 1, 8, dtype=x.dtype)
    grid = torch.stack(torch.meshgrid(line, line, indexing="ij")).expand(x.shape[0], -1, -1, -1)
    return net.o(F.relu(net.a(torch.cat([x, grid], 1))))


@habit((4, 8, 8), (5,), a=conv(4, 6), f=linear(5, 12), o=conv(6, 3))
def film(net, x, condition):
    scale, shift = net.f(condition).chunk(2, 1)
    return net.o(F.relu(net.a(x) * scale[:, :, None, None] + shift[:, :, None, None]))


@habit((5,), e=linear(5, 4), d=linear(4, 5), book=buffer(lambda: torch.randn(8, 4)), size=zeros(8))
def vector_quantiser(net, x):
    z = net.e(x)
    codes = torch.cdist(z.detach(), net.book).argmin(1)
    chosen = F.one_hot(codes, 8).to(z.dtype)
    if net.training:
        net.size.mul_(0.9).add_(chosen.sum(0), alpha=0.1)
        net.book.lerp_(chosen.t() @ z.detach() / (net.size[:, None] + 1), 0.1)
    q = chosen @ net.book
    return net.d(z + (q - z).detach()), (z - q).square().mean(1)


@habit((5,), e=linear(5, 4), m=linear(5, 4), q=zeros(4, 8), after=frozen("m"))
def momentum_encoder_with_queue(net, x):
    with torch.no_grad():
        net.m.weight.lerp_(net.e.weight, 0.1)
        keys = F.normalize(net.m(x), dim=1)
    y = F.normalize(net.e(x), dim=1)
    scores = torch.cat([(y * keys).sum(1, keepdim=True), y @ net.q.clone()], 1)
    net.q.copy_(torch.cat([keys.mean(0)[:, None], net.q[:, :-1]], 1))
    return scores


@habit((5,), g=linear(5, 3), one=linear(5, 4), two=linear(5, 4), three=linear(5, 4), o=linear(4, 3))
def mixture_of_experts(net, x):
    weights, chosen = net.g(x).softmax(-1).topk(2, -1)
    every = torch.stack([net.one(x), net.two(x), net.three(x)], 1)
    picked = every.gather(1, chosen[..., None].expand(-1, -1, 4))
    return net.o((picked * weights[..., None]).sum(1))


@habit((5,), h=linear(5, 12), o=linear(3, 3))
def weights_made_for_each_row(net, x):
    return net.o(torch.bmm(net.h(x).view(-1, 3, 4), F.pad(x, (0, -1)).unsqueeze(2)).squeeze(2))


@habit(k=parameter(3, 6, 4, 3, 3), r=linear(4, 3), o=conv(6, 3))
def conditional_convolution(net, x):
    mix = net.r(x.mean((2, 3))).softmax(1)
    kernels = (mix @ net.k.flatten(1)).view(-1, 4, 3, 3)
    y = F.conv2d(x.reshape(1, -1, 8, 8), kernels, padding=1, groups=x.shape[0])
    return net.o(y.view(-1, 6, 8, 8))


@habit((5,), e=linear(5, 3))
def tied_autoencoder(net, x):
    return F.linear(torch.tanh(net.e(x)), net.e.weight.t())


@habit((5,), a=linear(5, 5), o=linear(5, 3))
def fixed_point_by_repetition(net, x):
    y = torch.zeros_like(x)
    for _ in range(4):
        y = torch.tanh(net.a(y) + x)
    return net.o(y)


@habit((4, 3), a=linear(3, 8), b=linear(8, 6), o=linear(6, 3))
def point_cloud(net, x):
    return net.o(net.b(F.relu(net.a(x))).amax(1))


@habit((4, 3), a=linear(3, 6), o=linear(6, 3), e=buffer(lambda: torch.eye(4) + 0.5))
def graph_convolution(net, x):
    return net.o(F.relu(net.e @ net.a(x)).mean(1))


@habit(a=conv(4, 4), n=bn(4), b=conv(4, 4), m=bn(4), s=conv(4, 4, 1), o=linear(4, 3), aux=linear(4, 3))
def auxiliary_head(net, x):
    y = F.relu(net.n(net.a(x)))
    z = F.relu(net.m(net.b(y)) + net.s(x))
    result = {"out": net.o(z.mean((2, 3)))}
    if net.training:
        result["aux"] = net.aux(y.mean((2, 3)))
    return result


@habit((BATCH, 4, 8, 8), a=conv(4, 4), l=lambda: nn.LSTM(4, 5, batch_first=True), o=linear(5, 3))
def video_of_as_many_frames_as_rows(net, x):
    y = F.relu(net.a(x.flatten(0, 1))).mean((2, 3)).view(x.shape[0], BATCH, 4)
    return net.o(net.l(y)[0][:, -1])


@habit(a=conv(4, 6), one=bn(6), two=bn(6), o=conv(6, 3))
def norm_of_each_half_of_the_rows(net, x):
    y = net.a(x)
    half = (x.shape[0] + 1) // 2
    return net.o(torch.cat([net.one(y[:half]), net.two(y[half:])], 0))
