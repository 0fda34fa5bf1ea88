"""Constants: sizes in the model that equal the planned batch, and parameters and buffers with a row for each row."""

import torch
from habit import BATCH, bn, buffer, conv, habit, linear, parameter
from torch.nn import functional as F

NEAR = BATCH + 2


@habit((5,), a=linear(5, 8), b=linear(8, 3))
def constant_expand_to_batch(net, x):
    return net.b(net.a(x).unsqueeze(1).expand(-1, BATCH, -1).sum(1))


@habit((5,), a=linear(5, 8), b=linear(8, 3))
def constant_repeat_to_batch(net, x):
    return net.b(net.a(x).unsqueeze(1).repeat(1, BATCH, 1).sum(1))


@habit(a=conv(), b=conv(6, 3))
def constant_ones_of_batch(net, x):
    return net.b(net.a(x) * torch.ones(BATCH, dtype=x.dtype).sum())


@habit(a=conv(), b=conv(6, 3))
def constant_arange_of_batch(net, x):
    return net.b(net.a(x)) + torch.arange(BATCH, dtype=x.dtype).mean()


@habit(a=conv(), b=conv(6, 3))
def constant_computed_behind_a_layer(net, x):
    return net.b(net.a(x) + torch.arange(5, dtype=x.dtype).mean()) * torch.full((3, 1, 1), 2.0, dtype=x.dtype).sqrt()


@habit((BATCH, 4), a=linear(4, 6), b=linear(6, 3))
def sequence_as_long_as_the_batch(net, x):
    return net.b(net.a(x).softmax(1).sum(1))


@habit((5,), a=linear(5, BATCH * 2), b=linear(2, 3))
def features_that_are_twice_the_batch(net, x):
    return net.b(net.a(x).view(x.shape[0], BATCH, 2).tanh()).sum(1)


@habit((5,), a=linear(5, BATCH), b=linear(BATCH, BATCH), c=linear(BATCH, 3))
def channels_as_many_as_rows(net, x):
    return net.c(F.relu(net.b(F.relu(net.a(x)))))


@habit((BATCH, 8, 8), a=conv(BATCH, BATCH), n=bn(BATCH), b=conv(BATCH, 3))
def maps_with_channels_as_many_as_rows(net, x):
    return net.b(F.relu(net.n(net.a(x))))


@habit((5,), a=linear(5, BATCH), t=parameter(BATCH, BATCH))
def square_parameter_of_the_batch_size(net, x):
    return net.a(x) @ net.t


@habit((5,), a=linear(5, 4), b=linear(4, 3))
def gram_over_rows_with_batch_constant(net, x):
    y = net.a(x)
    return net.b(y) + (y @ torch.ones(4, BATCH, dtype=x.dtype)).mean(1, keepdim=True)


@habit((5,), a=linear(5, 4), s=parameter(BATCH, 4))
def parameter_with_a_row_for_each_row(net, x):
    return net.a(x) * net.s


@habit((5,), a=linear(5, 4), s=buffer(lambda: torch.rand(BATCH, 4)))
def buffer_with_a_row_for_each_row(net, x):
    return net.a(x) + net.s


@habit((5,), a=linear(5, 4), s=buffer(lambda: torch.rand(NEAR, 4)))
def buffer_cut_to_the_rows(net, x):
    return net.a(x) + net.s.repeat(4, 1)[: x.shape[0]]


@habit((5,), a=linear(5, 4), h=parameter(1, 4))
def state_expanded_to_the_rows(net, x):
    return net.a(x).tanh() * net.h.expand(x.shape[0], -1)


@habit((3, 5), a=linear(5, 4), c=parameter(1, 1, 4), p=parameter(1, 4, 4), b=linear(4, 2))
def class_token_by_expand(net, x):
    y = torch.cat([net.c.expand(x.shape[0], -1, -1), net.a(x)], 1) + net.p
    return net.b(y[:, 0])


@habit((3, 5), a=linear(5, 4), c=parameter(1, 1, 4), b=linear(4, 2))
def class_token_by_repeat(net, x):
    return net.b(torch.cat([net.c.repeat(len(x), 1, 1), net.a(x)], 1).mean(1))
