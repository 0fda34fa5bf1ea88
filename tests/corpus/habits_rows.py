"""Rows: arithmetic on x.shape[0], and whatever mixes rows, moves them or folds other dimensions into them."""

import torch
from habit import BATCH, bn, conv, habit, linear
from torch import nn
from torch.nn import functional as F


@habit(a=conv(), b=conv(6, 3))
def divided_by_rows(net, x):
    return net.b(net.a(x) / x.shape[0])


@habit(a=conv(), b=conv(6, 3))
def scaled_by_len(net, x):
    return net.b(net.a(x) * len(x) ** 0.5)


@habit(a=conv(), b=conv(6, 3))
def scaled_by_a_tensor_of_rows(net, x):
    return net.b(net.a(x) * torch.tensor(float(x.shape[0]), dtype=x.dtype).sqrt())


@habit(a=conv(), b=conv(6, 3))
def minus_the_mean_of_rows(net, x):
    y = net.a(x)
    return net.b(F.relu(y - y.mean(0, keepdim=True)))


@habit((5,), a=linear(5, 6), b=linear(6, 3))
def mean_of_rows_as_output(net, x):
    return net.b(net.a(x).tanh()).mean(0)


@habit((5,), a=linear(5, 6), b=linear(6, 3))
def max_over_rows(net, x):
    y = net.a(x)
    return net.b(y / y.abs().amax(0))


@habit((5,), a=linear(5, 6), b=linear(6, 3))
def softmax_over_rows(net, x):
    return net.b(net.a(x).softmax(0))


@habit((5,), a=linear(5, 6), b=linear(6, 3))
def arange_of_rows(net, x):
    return net.b(net.a(x) * torch.arange(x.shape[0], dtype=x.dtype)[:, None])


@habit((5,), a=linear(5, 6), b=linear(6, 3))
def linspace_of_rows(net, x):
    return net.b(net.a(x) + torch.linspace(0, 1, x.shape[0], dtype=x.dtype)[:, None])


@habit((5,), a=linear(5, 6), b=linear(6, 3))
def rolled_rows(net, x):
    y = net.a(x)
    return net.b(F.relu(y) * y.roll(1, 0))


@habit((5,), a=linear(5, 6), b=linear(6, 3))
def flipped_rows(net, x):
    y = net.a(x)
    return net.b(y.tanh() + y.flip(0))


@habit(a=conv(), b=conv(6, 3))
def first_row_for_all(net, x):
    y = net.a(x)
    return net.b(F.relu(y + y[:1]))


@habit(a=conv(), b=conv(6, 3))
def every_second_row(net, x):
    return net.b(F.relu(net.a(x)[::2]))


@habit(a=conv(), b=conv(6, 3))
def mixup_of_row_halves(net, x):
    half = x.shape[0] // 2
    y = net.a(x)
    return net.b(0.5 * y[:half] + 0.5 * y[half : 2 * half])


@habit((5,), (5,), a=linear(5, 6), b=linear(6, 3))
def two_views_as_one_batch(net, x, y):
    one, two = net.b(F.relu(net.a(torch.cat([x, y], 0)))).chunk(2, 0)
    return one * two


@habit((5,), a=linear(5, 6), b=linear(6, 3))
def batch_doubled(net, x):
    return net.b(net.a(torch.cat([x, -x], 0)).tanh())


@habit((5,), a=linear(5, 6), n=lambda: nn.BatchNorm1d(6), b=linear(6, 3))
def norm_over_a_doubled_batch(net, x):
    both = net.b(net.n(net.a(torch.cat([x, x.flip(1)], 0))))
    return both[: x.shape[0]] - both[x.shape[0] :]


@habit((5,), a=linear(5, 6), b=linear(6, 3))
def rows_stacked_from_a_loop(net, x):
    return net.b(torch.stack([net.a(row).tanh() for row in x]))


@habit((5,), a=linear(5, 6), b=linear(6, 3))
def rows_unbound(net, x):
    rows = net.a(x).unbind(0)
    return net.b(torch.stack(rows)) + sum(rows).mean()


@habit((3, 4), a=linear(4, 6), b=linear(6, 4))
def view_with_minus_one_in_front(net, x):
    return net.b(net.a(x.view(-1, 4)).relu()).view(-1, 3, 4)


@habit((3, 4), a=linear(4, 6), b=linear(18, 2))
def tokens_as_rows(net, x):
    y = net.a(x.reshape(-1, 4)).tanh()
    return net.b(y.reshape(x.shape[0], -1))


@habit((3, 4), a=linear(4, 6), n=lambda: nn.BatchNorm1d(6), b=linear(6, 2))
def norm_over_tokens_as_rows(net, x):
    return net.b(net.n(net.a(x).flatten(0, 1)).unflatten(0, (x.shape[0], 3))).mean(1)


@habit((2, 4, 8, 8), a=conv(4, 6), n=bn(6), b=linear(6, 2))
def frames_as_rows(net, x):
    rows, frames = x.shape[:2]
    y = F.relu(net.n(net.a(x.flatten(0, 1)))).mean((2, 3))
    return net.b(y.view(rows, frames, -1).mean(1))


@habit(a=conv(4, 6), q=linear(6, 6), b=linear(6, 3))
def windows_as_rows(net, x):
    y = net.a(x)
    rows, channels, height, width = y.shape
    y = y.view(rows, channels, height // 4, 4, width // 4, 4).permute(0, 2, 4, 3, 5, 1)
    windows = net.q(y.reshape(-1, 16, channels)).softmax(1)
    return net.b(windows.view(rows, 4, 16, channels).mean((1, 2)))


@habit(a=conv(4, 6), b=conv(6, 3))
def patches_by_unfold_and_fold(net, x):
    patches = F.unfold(net.a(x), 2, stride=2)
    return net.b(F.fold(patches * 2, (8, 8), 2, stride=2))


@habit((5,), a=linear(5, 6), b=linear(6, 1))
def squeeze_all(net, x):
    return net.b(F.relu(net.a(x))).squeeze()


@habit((5,), a=linear(5, 6), b=linear(6, 1))
def squeeze_the_last(net, x):
    return net.b(F.relu(net.a(x))).squeeze(-1)


@habit((5,), a=linear(5, 6), b=linear(6, 3), c=linear(6, 3))
def branch_on_rows(net, x):
    y = net.a(x)
    return net.b(y) if x.shape[0] > 5 else net.c(y)


@habit((5,), a=linear(5, 6), b=linear(6, 3))
def assert_on_rows(net, x):
    assert x.shape[0] == BATCH
    return net.b(net.a(x))


@habit(a=conv(), b=conv(6, 3))
def assert_on_channels(net, x):
    assert x.shape[1:] == (4, 8, 8)
    return net.b(net.a(x))


@habit(a=conv(), b=conv(6, 3))
def view_to_the_planned_batch(net, x):
    return net.b(net.a(x).view(BATCH, 6, 8, 8))


@habit((5,), a=linear(5, 6), b=linear(6, 3))
def contrastive_similarities(net, x):
    y = F.normalize(net.b(net.a(x).tanh()), dim=1)
    return y @ y.t()


@habit((5,), a=linear(5, 6), b=linear(6, 3))
def cumulative_over_rows(net, x):
    return net.b(net.a(x).cumsum(0))


@habit((5,), a=linear(5, 6), b=linear(6, 3))
def sorted_rows(net, x):
    return net.b(net.a(x).sort(0).values)


@habit(a=conv(), b=linear(6, 3))
def rows_behind_time(net, x):
    y = net.a(x).flatten(2).permute(2, 0, 1)
    return net.b(y.mean(0))


@habit((7, 4), a=lambda: nn.LSTM(4, 5), b=linear(5, 3))
def recurrent_with_time_in_front(net, x):
    return net.b(net.a(x.transpose(0, 1))[0][-1])


@habit((5,), a=linear(5, 6), b=linear(6, 3))
def new_zeros_of_rows(net, x):
    h = x.new_zeros(x.shape[0], 6)
    for _ in range(2):
        h = torch.tanh(net.a(x) + h)
    return net.b(h)


@habit((5,), a=linear(5, 6), b=linear(6, 3))
def mask_of_rows_by_rows(net, x):
    y = net.a(x)
    scores = (y @ y.t()).masked_fill(torch.eye(x.shape[0], dtype=torch.bool), -1e9)
    return net.b(scores.softmax(-1) @ y)


@habit((5,), a=linear(5, 6), n=lambda: nn.BatchNorm1d(6, affine=False, track_running_stats=False), b=linear(6, 3))
def standardised_over_rows(net, x):
    return net.b(net.n(net.a(x)))


@habit((5,), a=linear(5, 6), b=linear(6, 3))
def variance_of_rows_as_a_feature(net, x):
    y = net.a(x)
    spread = y.var(0, unbiased=False).mean().expand(x.shape[0], 1)
    return net.b(y) * spread
