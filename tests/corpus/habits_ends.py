"""Ends: what goes in and what comes out."""

import torch
from habit import conv, habit, linear, parameter
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
