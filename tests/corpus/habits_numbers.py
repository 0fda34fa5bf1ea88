"""Numbers: precisions, and random numbers."""

import torch
from habit import bn, conv, habit, linear
from torch import nn
from torch.nn import functional as F


# float32 inside: partial sums in another order differ in the last of its 24 bits
@habit(a=conv(), b=conv(6, 3), tolerance=1e-4)
def float_inside(net, x):
    y = net.a(x).float()
    return net.b(y.softmax(1).double())


@habit(a=conv(), b=conv(6, 3), tolerance=1e-2)
def half_inside(net, x):
    return net.b((net.a(x).half() * 0.5).to(x.dtype))


@habit(a=conv(), b=conv(6, 3), cast=False, tolerance=1e-4)
def double_inside(net, x):
    y = net.a(x).double()
    return net.b(((y - y.mean((2, 3), keepdim=True)) / 3).float())


@habit((5,), a=linear(5, 6), b=linear(6, 3), cast=False, tolerance=1e-4, after=lambda net: net.b.double())
def half_of_the_model_in_double(net, x):
    return net.b(net.a(x).tanh().double())


@habit((5,), a=linear(5, 6), b=linear(6, 3), cast=False, tolerance=5e-2, after=lambda net: net.bfloat16())
def model_in_bfloat16(net, x):
    return net.b(net.a(x.bfloat16()).tanh()).float()


@habit((5,), a=linear(5, 6), b=linear(6, 3), cast=False, tolerance=1e-4)
def whole_model_in_float32(net, x):
    return net.b(net.a(x).tanh())


# bfloat16 inside: a partial sum rounds to 8 bits
@habit((5,), a=linear(5, 6), b=linear(6, 3), cast=False, tolerance=5e-2)
def autocast_inside(net, x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = net.a(x)
    return net.b(y.float().tanh())


@habit((5,), a=linear(5, 6), b=linear(6, 3))
def autocast_disabled_inside(net, x):
    with torch.autocast("cpu", enabled=False):
        y = net.a(x)
    return net.b(y.tanh())


@habit(a=conv(), b=conv(6, 3), after=lambda net: net.to(memory_format=torch.channels_last))
def channels_last(net, x):
    return net.b(net.a(x.contiguous(memory_format=torch.channels_last)))


@habit(a=conv(), n=bn(), d=lambda: nn.Dropout(0.3), b=conv(6, 3), is_random=True)
def dropout(net, x):
    return net.b(net.d(net.n(net.a(x))))


@habit(a=conv(), d=lambda: nn.Dropout2d(0.3), e=lambda: nn.AlphaDropout(0.2), b=conv(6, 3), is_random=True)
def dropout_of_channels_and_alpha(net, x):
    return net.b(net.e(net.d(net.a(x))))


@habit(a=conv(), f=lambda: nn.FeatureAlphaDropout(0.2), b=conv(6, 3), is_random=True)
def dropout_of_features_alpha(net, x):
    return net.b(net.f(net.a(x)))


@habit((4, 8), a=lambda: nn.Conv1d(4, 6, 3), d=lambda: nn.Dropout1d(0.3), b=lambda: nn.Conv1d(6, 3, 1), is_random=True)
def dropout_of_one_dimension(net, x):
    return net.b(net.d(net.a(x)))


@habit(a=conv(), b=conv(6, 3))
def dropout_of_nothing(net, x):
    return net.b(F.dropout(net.a(x), 0.0, net.training))


@habit(a=conv(), b=conv(6, 3), is_random=True)
def functional_dropout_always_on(net, x):
    return net.b(F.dropout(net.a(x), 0.4))


@habit(a=conv(), b=conv(6, 3), is_random=True)
def noise_like(net, x):
    y = net.a(x)
    return net.b(y + 0.1 * torch.randn_like(y) if net.training else y)


@habit(a=conv(), b=conv(6, 3), is_random=True)
def uniform_like(net, x):
    y = net.a(x)
    return net.b(y * (torch.rand_like(y) + 0.5) if net.training else y)


@habit(a=conv(), b=conv(6, 3), is_random=True)
def bernoulli(net, x):
    y = net.a(x)
    return net.b(y * torch.bernoulli(torch.full_like(y, 0.7)) / 0.7 if net.training else y)


@habit(a=conv(), r=nn.RReLU, b=conv(6, 3), is_random=True)
def rrelu(net, x):
    return net.b(net.r(net.a(x)))


def drop_path(y, p, training):
    """Drop whole rows, as residual networks with stochastic depth do."""
    if not training:
        return y
    return y * y.new_empty(y.shape[0], 1, 1, 1).bernoulli_(1 - p) / (1 - p)


@habit(a=conv(4, 4), b=conv(4, 3), is_random=True)
def stochastic_depth(net, x):
    return net.b(x + drop_path(net.a(x), 0.3, net.training))


@habit((5,), a=linear(5, 6), b=linear(6, 3), is_random=True)
def reparametrised(net, x):
    mean, log_variance = net.a(x).chunk(2, 1)
    return net.b(torch.cat([mean + torch.randn_like(mean) * log_variance.mul(0.5).exp(), mean], 1))


@habit((5,), a=linear(5, 6), b=linear(6, 3), is_random=True)
def gumbel_softmax(net, x):
    return net.b(F.gumbel_softmax(net.a(x), tau=1.0))


@habit((5,), a=linear(5, 6), b=linear(6, 3), is_random=True)
def random_factor_for_every_row(net, x):
    y = net.a(x)
    return net.b(y * torch.rand(x.shape[0], 1, dtype=y.dtype))


@habit((5,), a=linear(5, 6), b=linear(6, 3), is_random=True)
def rows_permuted_at_random(net, x):
    y = net.a(x)
    return net.b(y + 0.1 * y[torch.randperm(x.shape[0])])
