"""Values: what depends on them, and what cannot be captured."""

import torch
from habit import habit, linear, tokens
from torch import nn
from torch.nn import functional as F


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
