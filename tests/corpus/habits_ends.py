"""Ends: what goes in, what comes out, precisions, random numbers, and what cannot be captured."""

import torch
from habit import bn, conv, habit, linear, parameter, tokens
from torch import nn
from torch.nn import functional as F


@habit((4, 8, 8), (3,), a=conv(4, 3), b=linear(3, 3), c=conv(3, 3))
def two_inputs(net, x, y):
    return net.c(net.a(x) * net.b(y)[:, :, None, None])


@habit((5,), (5,), a=linear(5, 3))
def input_that_is_not_used(net, x, y):
    return net.a(x)


@habit(a=conv(), b=conv(6, 3), c=conv(6, 2))
def two_outputs(net, x):
    y = net.a(x)
    return net.b(y), net.c(y)


@habit(a=conv(), b=conv(6, 3), c=conv(6, 2))
def dict_output(net, x):
    y = net.a(x)
    return {"maps": net.b(y), "pooled": net.c(y).mean((2, 3))}


@habit(a=conv(), b=conv(6, 3), c=conv(6, 2))
def nested_output(net, x):
    y = net.a(x)
    return {"out": (net.b(y), [net.c(y), y]), "aux": y.mean((1, 2, 3))}


@habit(layers=lambda: nn.ModuleList([nn.Conv2d(4, 4, 1) for _ in range(3)]))
def list_output(net, x):
    outs = []
    for layer in net.layers:
        x = F.relu(layer(x))
        outs.append(x)
    return outs


@habit(a=conv(), b=conv(6, 3))
def one_output_twice(net, x):
    y = net.b(net.a(x))
    return y, y


@habit(a=conv(), b=conv(6, 3))
def none_among_outputs(net, x):
    return net.b(net.a(x)), None


@habit(a=conv(), b=conv(6, 3))
def number_among_outputs(net, x):
    return net.b(net.a(x)), 3.5


@habit(a=conv(), b=conv(6, 3))
def constant_among_outputs(net, x):
    return net.b(net.a(x)), torch.ones(7, dtype=x.dtype)


@habit((5,), a=linear(5, 3), p=parameter(7))
def parameter_among_outputs(net, x):
    return net.a(x), net.p


@habit((5,), a=linear(5, 3), p=parameter(3, 5))
def penalty_among_outputs(net, x):
    return net.a(x), net.p.square().sum() + net.a.weight.square().sum()


@habit((5,), a=linear(5, 3))
def input_among_outputs(net, x):
    return net.a(x), x


@habit((5,), a=linear(5, 3))
def nothing_but_a_constant(net, x):
    return torch.ones(3)


@habit((5,), a=linear(5, 3))
def nothing_at_all(net, x):
    return None


@habit((5,), a=linear(5, 3))
def nothing_but_the_input(net, x):
    return x


@habit((4,), a=linear(4, 3))
def view_of_the_input_as_output(net, x):
    return net.a(x), x.view(-1, 2, 2)


@habit((5,), a=linear(5, 6), b=linear(6, 3))
def scalar_output(net, x):
    return net.b(net.a(x).tanh()).square().mean()


@habit((5,), a=linear(5, 6), b=linear(6, 3))
def sum_as_output(net, x):
    return net.b(net.a(x).tanh()).square().sum()


@habit((5,), a=linear(5, 6), b=linear(6, 3))
def integer_among_outputs(net, x):
    y = net.b(net.a(x))
    return y, y.argmax(1)


@habit((5,), a=linear(5, 6), b=linear(6, 3))
def boolean_among_outputs(net, x):
    y = net.b(net.a(x))
    return y, y > 0


@habit((8,), a=linear(8, 8))
def complex_output(net, x):
    return torch.fft.rfft(net.a(x))


@habit(a=conv(), b=conv(6, 3))
def spectrum_inside(net, x):
    spectrum = torch.fft.rfft2(net.a(x))
    return net.b(torch.fft.irfft2(spectrum * 0.5, s=(8, 8)))


@habit((8,), a=linear(8, 8), w=lambda: nn.Parameter(torch.randn(5, 2)), b=linear(8, 3))
def complex_weights(net, x):
    return net.b(torch.fft.irfft(torch.fft.rfft(net.a(x)) * torch.view_as_complex(net.w), n=8))


@habit(named={"x": (5,), "y": (5,)}, a=linear(5, 6), b=linear(6, 3))
def keyword_inputs(net, *, x, y):
    return net.b(net.a(x) * net.a(y).sigmoid())


@habit({"image": (5,), "mask": (6,)}, a=linear(5, 6), b=linear(6, 3))
def dict_input(net, batch):
    return net.b(net.a(batch["image"]) * batch["mask"])


@habit([(5,), (5,)], a=linear(5, 6), b=linear(6, 3))
def list_input(net, views):
    return net.b(sum(net.a(view) for view in views))


@habit((5,), a=linear(5, 6), b=linear(6, 3))
def optional_argument(net, x, scale=2.0):
    return net.b(net.a(x)) * scale


@habit((), a=linear(1, 6), b=linear(6, 3))
def input_without_channels(net, x):
    return net.b(net.a(x[:, None]).tanh())


@habit((0,), a=linear(5, 3))
def input_without_elements(net, x):
    return net.a(F.pad(x, (0, 5)))


@habit(lambda rows, generator: torch.rand(rows, 5, generator=generator) > 0.5, (5,), a=linear(5, 3))
def boolean_input(net, mask, x):
    return net.a(x.masked_fill(mask, 0.0))


@habit(
    lambda rows, generator: torch.randint(0, 255, (rows, 4, 8, 8), generator=generator, dtype=torch.uint8),
    a=conv(),
    b=conv(6, 3),
)
def bytes_as_input(net, x):
    return net.b(net.a(x.to(net.a.weight.dtype) / 255))


@habit(lambda rows, generator: torch.randn(rows, 5, generator=generator), a=linear(5, 6), b=linear(6, 3))
def float_input_of_a_double_model(net, x):
    return net.b(net.a(x.double()))


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
def random_numbers_of_python(net, x):
    y = net.a(x)
    return net.b(y * torch.rand(1, dtype=y.dtype))


@habit((5,), a=linear(5, 6), b=linear(6, 3), is_random=True)
def rows_permuted_at_random(net, x):
    y = net.a(x)
    return net.b(y + 0.1 * y[torch.randperm(x.shape[0])])


@habit((5,), a=linear(5, 6), b=linear(6, 3))
def item(net, x):
    y = net.a(x)
    return net.b(y / y.abs().max().item())


@habit((5,), a=linear(5, 6), b=linear(6, 3))
def branch_on_a_value(net, x):
    y = net.a(x)
    return net.b(y if y.sum() > 0 else -y)


@habit((5,), a=linear(5, 6), b=linear(6, 3))
def nonzero(net, x):
    y = net.a(x)
    return net.b(y) + y.flatten()[(y.flatten() > 0).nonzero().squeeze(1)].sum()


@habit((5,), a=linear(5, 6), b=linear(6, 3))
def rows_picked_by_a_mask(net, x):
    y = net.a(x)
    return net.b(y[y.sum(1) > 0])


@habit((5,), a=linear(5, 6), b=linear(6, 3))
def unique_values(net, x):
    return net.b(net.a(x)) + torch.unique((x > 0).long()).sum()


@habit((5,), a=linear(5, 6), b=linear(6, 3))
def through_numpy(net, x):
    return net.b(net.a(x) + torch.from_numpy(x.detach().numpy()).mean())


@habit((5,), a=linear(5, 6), b=linear(6, 3), after=lambda net: setattr(net, "calls", 0))
def python_counter(net, x):
    net.calls += 1
    return net.b(net.a(x)) * net.calls


@habit((5,), a=linear(5, 6), b=linear(6, 3), after=lambda net: setattr(net, "seen", []))
def values_kept_in_a_list(net, x):
    y = net.a(x)
    net.seen.append(y)
    return net.b(y)


@habit(
    (5,),
    a=linear(5, 6),
    b=linear(6, 3),
    loss=lambda outputs, target: sum(F.mse_loss(o, target[:, None].expand_as(o)) for o in outputs),
)
def two_losses(net, x):
    y = net.a(x)
    return net.b(y), y


@habit(tokens(3, 9), a=linear(3, 6))
def integers_only(net, i):
    return net.a(i.to(net.a.weight.dtype))


@habit((5,))
def no_parameters(net, x):
    return x.tanh()


@habit(lambda rows, generator: torch.zeros(0, 5, dtype=torch.float64), a=linear(5, 3))
def empty_sample(net, x):
    return net.a(x)


@habit(lambda rows, generator: torch.empty(rows, 5, device="meta"), a=linear(5, 3), after=lambda net: net.to("meta"))
def model_on_meta(net, x):
    return net.a(x)


@habit((5,), after=lambda net: setattr(net, "a", nn.LazyLinear(3)))
def lazy_layer(net, x):
    return net.a(x)


@habit((5,), a=linear(5, 4), b=linear(4, 3))
def mode_decides(net, x):
    y = net.a(x)
    return net.b(F.relu(y)) if net.training else net.b(y)
