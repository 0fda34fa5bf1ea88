"""Writes: in-place operations, slices and indices written, masks, and what autograd sees of them."""

import torch
from habit import bn, conv, fixed, habit, linear, parameter
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint


@habit(a=conv(), b=conv(6, 3))
def relu_in_place(net, x):
    return net.b(F.relu_(net.a(x)))


@habit(a=conv(4, 4), n=bn(4), b=conv(4, 4), r=lambda: nn.ReLU(inplace=True), c=conv(4, 3))
def residual_in_place(net, x):
    y = net.b(net.r(net.n(net.a(x))))
    y += x
    return net.c(net.r(y))


@habit(a=conv(), b=conv(6, 3))
def chain_in_place(net, x):
    return net.b(net.a(x).mul_(2).add_(1).div_(3).sub_(0.5).relu_())


@habit((4, 8, 8), (4, 8, 8), a=conv(), b=conv(6, 3))
def input_added_to_in_place(net, x, y):
    x += y
    return net.b(F.relu(net.a(x)))


@habit(a=conv(), b=conv(6, 3))
def input_scaled_in_place(net, x):
    x.mul_(0.5)
    return net.b(F.relu(net.a(x)))


@habit(a=conv(), b=conv(6, 3))
def slice_of_zeros_written(net, x):
    y = net.a(x)
    z = torch.zeros_like(y)
    z[:, :, :4] = y[:, :, 4:]
    return net.b(z)


@habit(a=conv(), b=conv(6, 3))
def channels_of_zeros_written(net, x):
    y = net.a(x)
    z = torch.zeros_like(y)
    z[:, :3] = y[:, 3:]
    return net.b(z)


@habit((5,), a=linear(5, 6), b=linear(6, 3))
def rows_of_zeros_written(net, x):
    y = net.a(x)
    z = torch.zeros_like(y)
    z[0] = y[-1]
    return net.b(z + y)


@habit(a=conv(), b=conv(6, 3))
def slice_written_into_a_result(net, x):
    y = net.a(x)
    y[:, :2] = 0
    return net.b(y)


@habit(a=conv(), b=conv(6, 3))
def slice_added_to_in_place(net, x):
    y = net.a(x) * 1.0
    y[:, :, 2:5] += 1.5
    return net.b(y)


@habit(a=conv(4, 8), b=conv(8, 3))
def channels_shifted_in_time(net, x):
    y = net.a(x)
    out = torch.zeros_like(y)
    out[:, :2, 1:] = y[:, :2, :-1]
    out[:, 2:4, :-1] = y[:, 2:4, 1:]
    out[:, 4:] = y[:, 4:]
    return net.b(out)


@habit((8, 8, 3), a=linear(3, 6), b=linear(6, 3))
def image_mask_written_by_regions(net, x):
    mask = x.new_zeros(8, 8)
    for number, rows in enumerate((slice(0, 4), slice(4, 6), slice(6, 8))):
        mask[rows, :] = number
    return net.b(net.a(x) * mask[..., None])


@habit((5,), a=linear(5, 6), b=linear(6, 3))
def index_put(net, x):
    y = net.a(x)
    z = torch.zeros_like(y)
    z[:, torch.tensor([0, 2])] = y[:, torch.tensor([1, 3])]
    return net.b(z)


@habit((5,), a=linear(5, 6), b=linear(6, 3))
def masked_fill_in_place(net, x):
    y = net.a(x) * 1.0
    y.masked_fill_(y.detach() < 0, 0.1)
    return net.b(y)


@habit((5,), a=linear(5, 6), b=linear(6, 3))
def boolean_mask_written(net, x):
    y = net.a(x) * 1.0
    y[y < 0] = 0.0
    return net.b(y)


@habit((5,), a=linear(5, 6), b=linear(6, 3))
def scatter_and_gather(net, x):
    y = net.a(x)
    order = y.argsort(1)
    return net.b(torch.zeros_like(y).scatter(1, order, y.gather(1, order.flip(1))))


@habit((5,), a=linear(5, 6), b=linear(6, 3))
def index_select_and_add(net, x):
    y = net.a(x)
    i = torch.tensor([0, 0, 3, 5])
    return net.b(y.index_add(1, i, y.index_select(1, i)))


@habit((5,), a=linear(5, 6), b=linear(6, 3))
def top_k_kept(net, x):
    y = net.a(x)
    return net.b(torch.where(y >= y.topk(2, 1).values[:, -1:], y, torch.zeros_like(y)))


@habit((5,), a=linear(5, 6), b=linear(6, 3))
def best_channel(net, x):
    y = net.a(x)
    values, indices = y.max(1, keepdim=True)
    return net.b(y - values + indices)


@habit(a=conv(), b=conv(6, 3))
def data_dependent_mask(net, x):
    y = net.a(x)
    return net.b(y * (y > y.mean()).to(y.dtype))


@habit(a=conv(), b=conv(6, 6), c=conv(6, 3))
def no_grad_block(net, x):
    with torch.no_grad():
        y = F.relu(net.a(x))
    return net.c(F.relu(net.b(y)))


@habit(a=conv(), b=conv(6, 3))
def no_grad_statistics(net, x):
    y = net.a(x)
    with torch.no_grad():
        scale = y.abs().amax((2, 3), keepdim=True)
    return net.b(y / scale)


@habit(a=conv(), b=conv(6, 3))
def enable_grad_within_no_grad(net, x):
    with torch.no_grad():
        scale = x.std()
        with torch.enable_grad():
            y = net.a(x) / scale
    return net.b(y)


@habit(a=conv(), b=conv(6, 3), c=conv(6, 3))
def detached_branch(net, x):
    y = F.relu(net.a(x))
    return net.b(y) + net.c(y.detach())


@habit(a=conv(), b=conv(6, 3))
def straight_through(net, x):
    y = net.a(x)
    return net.b(y + (y.round() - y).detach())


@habit(a=conv(), b=conv(6, 3))
def data_of_a_tensor(net, x):
    y = net.a(x)
    return net.b(y - y.data.mean((2, 3), keepdim=True))


@habit(a=conv(4, 4), b=conv(4, 4), c=conv(4, 3))
def checkpointed(net, x):
    y = checkpoint(lambda t: F.relu(net.b(F.relu(net.a(t)))), x, use_reentrant=False)
    return net.c(y)


@habit(a=conv(), n=bn(), b=conv(6, 3))
def checkpointed_norm(net, x):
    return net.b(checkpoint(lambda t: F.relu(net.n(net.a(t))), x, use_reentrant=False))


class Doubled(torch.autograd.Function):
    """Twice the value, three times the gradient."""

    @staticmethod
    def forward(ctx, x):
        return 2 * x

    @staticmethod
    def backward(ctx, gradient):
        return 3 * gradient


@habit(a=conv(), b=conv(6, 3))
def custom_gradient(net, x):
    return net.b(Doubled.apply(net.a(x)))


@habit(a=conv(), b=conv(6, 3), after=lambda net: net.a.register_forward_hook(lambda module, args, out: out * 2))
def forward_hook(net, x):
    return net.b(net.a(x))


@habit(a=conv(), b=conv(6, 3))
def gradient_hook(net, x):
    y = net.a(x)
    if y.requires_grad:
        y.register_hook(lambda gradient: gradient * 0.5)
    return net.b(y)


@habit(a=conv(), b=conv(6, 3))
def gradient_inside_forward(net, x):
    with torch.enable_grad():
        y = net.a(x)
        (gradient,) = torch.autograd.grad(y.square().sum(), y, create_graph=True)
    return net.b(y - 0.1 * gradient)


@habit((5,), a=linear(5, 6), b=linear(6, 3))
def where_with_a_scalar(net, x):
    y = net.a(x)
    return net.b(torch.where(y > 0, y, 0.1))


@habit((5,), a=linear(5, 6), s=parameter(6), b=linear(6, 3))
def parameter_clamped(net, x):
    return net.b(net.a(x) * net.s.clamp(min=0.5))


@habit((5,), a=linear(5, 6), b=linear(6, 3))
def parameter_written_under_no_grad(net, x):
    with torch.no_grad():
        net.a.weight.clamp_(-0.2, 0.2)
    return net.b(net.a(x))


@habit((5,), a=linear(5, 6), b=linear(6, 3))
def view_written_through(net, x):
    y = net.a(x) * 1.0
    y.view(-1, 2, 3)[:, 0].mul_(2)
    return net.b(y)


@habit((5,), a=linear(5, 6), b=linear(6, 3))
def python_list_of_pieces(net, x):
    pieces = [piece.tanh() * number for number, piece in enumerate(net.a(x).split(2, 1))]
    return net.b(torch.cat(pieces[::-1], 1))


@habit(a=conv(), b=conv(6, 3))
def constant_made_outside(net, x):
    return net.b(net.a(x) * fixed(6, 1, 1))
