"""Products: matrix products, attention, recurrent layers and embeddings."""

import torch
from habit import BATCH, buffer, conv, habit, linear, parameter, tokens
from torch import nn
from torch.nn import functional as F


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
