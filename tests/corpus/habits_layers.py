"""Layers: convolutions of every kind, norms, activations, attention, recurrent layers, and whole small networks."""

import torch
from habit import BATCH, bn, buffer, conv, habit, linear, parameter, tokens
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import parametrizations


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


NORMS = {
    "norm_instance": lambda: nn.InstanceNorm2d(6),
    "norm_instance_affine": lambda: nn.InstanceNorm2d(6, affine=True),
    "norm_instance_running": lambda: nn.InstanceNorm2d(6, affine=True, track_running_stats=True),
    "norm_group": lambda: nn.GroupNorm(3, 6),
    "norm_group_of_one": lambda: nn.GroupNorm(1, 6),
    "norm_layer_over_maps": lambda: nn.LayerNorm([6, 8, 8]),
    "norm_layer_over_width": lambda: nn.LayerNorm(8),
    "norm_local_response": lambda: nn.LocalResponseNorm(3),
    "norm_rms": lambda: nn.RMSNorm([6, 8, 8]),
    "norm_batch": lambda: nn.BatchNorm2d(6),
    "norm_batch_without_affine": lambda: nn.BatchNorm2d(6, affine=False),
    "norm_batch_without_running": lambda: nn.BatchNorm2d(6, track_running_stats=False),
}
for _name, _norm in NORMS.items():

    @habit(name=_name, a=conv(), n=_norm, b=conv(6, 3))
    def _(net, x):
        return net.b(F.relu(net.n(net.a(x))))


@habit((5, 4), a=linear(4, 6), n=lambda: nn.LayerNorm(6), r=lambda: nn.RMSNorm(6), b=linear(6, 3))
def norms_of_tokens(net, x):
    return net.b(net.r(F.gelu(net.n(net.a(x)))))


@habit(a=conv(), n=lambda: nn.LayerNorm(6), b=conv(6, 3))
def channels_last_layer_norm(net, x):
    return net.b(net.n(net.a(x).permute(0, 2, 3, 1)).permute(0, 3, 1, 2))


@habit(a=lambda: parametrizations.weight_norm(nn.Conv2d(4, 6, 3)), b=conv(6, 3))
def weight_norm(net, x):
    return net.b(F.relu(net.a(x)))


@habit(a=lambda: parametrizations.spectral_norm(nn.Conv2d(4, 6, 3)), b=conv(6, 3))
def spectral_norm(net, x):
    return net.b(F.relu(net.a(x)))


@habit((5,), a=lambda: parametrizations.orthogonal(nn.Linear(5, 5)), b=linear(5, 3))
def orthogonal(net, x):
    return net.b(F.relu(net.a(x)))


@habit(a=conv(), p=nn.PReLU, b=conv(6, 3), q=lambda: nn.PReLU(3))
def prelu_one_and_per_channel(net, x):
    return net.q(net.b(net.p(net.a(x))))


FAMILIES = {
    "activations_relu": (nn.ReLU, nn.ReLU6, nn.LeakyReLU, nn.Hardtanh, nn.Threshold),
    "activations_smooth": (nn.ELU, nn.SELU, nn.CELU, nn.GELU, nn.SiLU, nn.Mish, nn.Softplus),
    "activations_hard": (nn.Hardswish, nn.Hardsigmoid, nn.Hardshrink, nn.Softshrink, nn.Tanhshrink),
    "activations_sigmoid": (nn.Sigmoid, nn.Tanh, nn.LogSigmoid, nn.Softsign),
}
for _name, _kinds in FAMILIES.items():

    def _activations(kinds=_kinds):
        return nn.ModuleList(kind(0.1, 0.0) if kind is nn.Threshold else kind() for kind in kinds)

    @habit(name=_name, a=conv(), acts=_activations, b=conv(6, 3))
    def _(net, x):
        y = net.a(x)
        return net.b(sum(act(y) for act in net.acts))


@habit(a=conv(), b=conv(6, 4), c=conv(2, 3))
def activations_over_channels(net, x):
    y = net.a(x)
    return net.c(F.glu(net.b(F.softmax(y, 1) + F.log_softmax(y, 1) + F.softmin(y, 1)), 1))


@habit(a=conv(4, 12), b=conv(6, 3))
def maxout(net, x):
    y = net.a(x)
    return net.b(y.view(y.shape[0], 6, 2, 8, 8).amax(2))


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


@habit((5, 4), a=linear(4, 6), w=parameter(6, 3))
def einsum(net, x):
    return torch.einsum("nlc,cd->nld", net.a(x), net.w)


@habit((4, 5), a=linear(5, 6))
def matmul_and_bmm(net, x):
    y = net.a(x)
    return torch.bmm(torch.matmul(y, y.transpose(1, 2)).softmax(-1), y)


@habit((5,), (4,), b=lambda: nn.Bilinear(5, 4, 6), c=linear(6, 3))
def bilinear_layer(net, x, y):
    return net.c(net.b(x, y))


@habit((5, 8), a=lambda: nn.MultiheadAttention(8, 2, batch_first=True), n=lambda: nn.LayerNorm(8), b=linear(8, 3))
def multihead_attention(net, x):
    return net.b(net.n(x + net.a(x, x, x, need_weights=False)[0]))


@habit((5, 8), a=lambda: nn.MultiheadAttention(8, 2), b=linear(8, 3))
def multihead_attention_with_time_in_front(net, x):
    y, weights = net.a(*[x.transpose(0, 1)] * 3)
    return net.b(y.transpose(0, 1)), weights


@habit((5, 8), q=linear(8, 24), o=linear(8, 3))
def scaled_dot_product_attention(net, x):
    q, k, v = net.q(x).view(x.shape[0], 5, 3, 2, 4).permute(2, 0, 3, 1, 4)
    return net.o(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))


@habit((5, 8), t=lambda: nn.TransformerEncoderLayer(8, 2, 12, dropout=0.0, batch_first=True), b=linear(8, 3))
def transformer_encoder(net, x):
    return net.b(net.t(x))


@habit((5, 4), a=lambda: nn.LSTM(4, 6, num_layers=2, batch_first=True, bidirectional=True), b=linear(12, 3))
def lstm(net, x):
    return net.b(net.a(x)[0][:, -1])


@habit((5, 4), a=lambda: nn.GRU(4, 6, batch_first=True), b=linear(6, 3))
def gru(net, x):
    return net.b(net.a(x)[1][0])


@habit(tokens(5, 7), e=lambda: nn.Embedding(7, 4, padding_idx=0), b=linear(4, 3))
def embedding(net, i):
    return net.b(net.e(i).mean(1))


@habit(tokens(5, 7), e=lambda: nn.EmbeddingBag(7, 4, mode="sum"), b=linear(4, 3))
def embedding_bag(net, i):
    return net.b(net.e(i))


@habit(tokens(5, BATCH), a=linear(BATCH, 4), b=linear(4, 3))
def one_hot(net, i):
    return net.b(net.a(F.one_hot(i, BATCH).to(net.a.weight.dtype)).mean(1))


@habit(tokens(5, 7), (4,), e=lambda: nn.Embedding(7, 4), a=linear(4, 4), b=linear(4, 3))
def integers_and_floats_as_inputs(net, i, x):
    return net.b(net.e(i).mean(1) * net.a(x))


@habit(a=conv(), b=conv(6, 3))
def fixed_blur_kernel(net, x):
    y = net.a(x)
    kernel = torch.ones(6, 1, 3, 3, dtype=x.dtype) / 9
    return net.b(F.conv2d(y, kernel, padding=1, groups=6))


@habit((2, 8, 8), a=conv(2, 6), b=linear(6, 6), theta=linear(6, 6), c=conv(6, 3))
def spatial_transformer(net, x):
    y = net.a(x)
    theta = net.theta(net.b(y.mean((2, 3))).tanh()).view(-1, 2, 3)
    return net.c(F.grid_sample(y, F.affine_grid(theta, list(y.shape), align_corners=False), align_corners=False))


@habit((4, 5), a=linear(5, 6), c=buffer(lambda: torch.tril(torch.ones(4, 4))), b=linear(6, 3))
def causal_mask_in_a_buffer(net, x):
    y = net.a(x)
    scores = (y @ y.transpose(1, 2)).masked_fill(net.c == 0, float("-inf"))
    return net.b(scores.softmax(-1) @ y)


@habit((6, 8, 8), a=conv(6, 6, 1), b=conv(6, 3))
def layers_of_a_sequential(net, x):
    return nn.Sequential(net.a, nn.ReLU(), nn.Identity(), net.b)(x)
