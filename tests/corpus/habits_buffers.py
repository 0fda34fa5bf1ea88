"""Buffers: written in forward in every form, read before and after, not persistent, and constants beside them."""

import torch
from habit import buffer, conv, habit, linear, ones, parameter, zeros
from torch import nn


@habit(a=conv(), s=ones(), b=conv(6, 3))
def buffer_added_to(net, x):
    y = net.a(x)
    net.s += y.abs().mean()
    return net.b(y / net.s)


@habit(a=conv(), s=ones(), b=conv(6, 3))
def buffer_added_to_by_method(net, x):
    y = net.a(x)
    net.s.add_(y.detach().abs().mean(), alpha=0.5)
    return net.b(y / net.s)


@habit(a=conv(), s=ones(6), b=conv(6, 3))
def buffer_lerped(net, x):
    y = net.a(x)
    net.s.lerp_(y.detach().abs().mean((0, 2, 3)), 0.1)
    return net.b(y / net.s[:, None, None])


@habit(a=conv(), count=zeros(), b=conv(6, 3))
def buffer_counts(net, x):
    net.count += 1
    return net.b(net.a(x))


@habit(a=conv(), count=buffer(lambda: torch.zeros((), dtype=torch.long)), b=conv(6, 3))
def integer_buffer_counts(net, x):
    net.count += 1
    return net.b(net.a(x))


@habit(a=conv(), count=buffer(lambda: torch.zeros((), dtype=torch.long)), b=conv(6, 3))
def buffer_counts_rows(net, x):
    net.count += x.shape[0]
    return net.b(net.a(x))


@habit(a=conv(), count=zeros(), b=conv(6, 3))
def buffer_counts_and_is_read(net, x):
    net.count += 1
    return net.b(net.a(x)) / net.count


@habit(a=conv(), s=ones(), b=conv(6, 3))
def buffer_multiplied(net, x):
    net.s.mul_(0.9)
    return net.b(net.a(x) * net.s)


@habit(a=conv(), s=ones(6, 1, 1), b=conv(6, 3))
def buffer_decayed_and_added(net, x):
    y = net.a(x)
    net.s.mul_(0.9).add_(0.1 * y.detach().mean((0, 2, 3), keepdim=True)[0])
    return net.b(y - net.s)


@habit(a=conv(), s=ones(6), b=conv(6, 3))
def buffer_assigned(net, x):
    y = net.a(x)
    net.s = 0.9 * net.s + 0.1 * y.detach().mean((0, 2, 3))
    return net.b(y * net.s[:, None, None])


@habit(a=conv(), s=ones(6), b=conv(6, 3))
def buffer_copied_into(net, x):
    y = net.a(x)
    net.s.copy_(y.detach().mean((0, 2, 3)))
    return net.b(y * net.s[:, None, None])


@habit(a=conv(), s=ones(6), b=conv(6, 3))
def buffer_written_whole_by_index(net, x):
    y = net.a(x)
    net.s[:] = y.detach().mean((0, 2, 3))
    return net.b(y - net.s[:, None, None])


@habit(a=conv(), s=ones(6), b=conv(6, 3))
def buffer_read_before_the_write(net, x):
    y = net.a(x)
    z = net.b(y + net.s[:, None, None])
    net.s.copy_(y.detach().mean((0, 2, 3)))
    return z


@habit(a=conv(), s=ones(6), b=conv(6, 6), c=conv(6, 3))
def buffer_read_before_and_after_the_write(net, x):
    y = net.a(x)
    z = net.b(y + net.s[:, None, None])
    net.s.copy_(0.5 * net.s + y.detach().mean((0, 2, 3)))
    return net.c(z + net.s[:, None, None])


@habit(a=conv(), s=ones(6), b=conv(6, 3))
def buffer_written_twice(net, x):
    y = net.a(x)
    net.s += y.detach().mean((0, 2, 3))
    net.s *= 0.5
    return net.b(y + net.s[:, None, None])


@habit((5,), a=linear(5, 4), q=zeros(8, 4), b=linear(4, 3))
def buffer_queue(net, x):
    y = net.a(x)
    z = net.b(y) + (y @ net.q.clone().t()).mean(1, keepdim=True)
    net.q[:2] = y.detach()[:1]
    net.q.copy_(net.q.roll(2, 0))
    return z


@habit((5,), a=linear(5, 4), q=zeros(8, 4), at=buffer(lambda: torch.zeros((), dtype=torch.long)), b=linear(4, 3))
def buffer_queue_with_a_pointer(net, x):
    y = net.a(x)
    z = net.b(y) + (y @ net.q.clone().t()).mean(1, keepdim=True)
    net.q.index_copy_(0, net.at[None], y.detach().mean(0, keepdim=True))
    net.at.copy_((net.at + 1) % 8)
    return z


@habit((5,), a=linear(5, 4), q=zeros(8, 4), b=linear(4, 3))
def buffer_slice_added_to(net, x):
    y = net.a(x)
    net.q[0] += y.detach().mean(0)
    return net.b(y + net.q.sum(0))


@habit((5,), a=linear(5, 4), q=zeros(4), b=linear(4, 3))
def buffer_element_written(net, x):
    y = net.a(x)
    net.q[1] = y.detach().mean()
    return net.b(y + net.q)


@habit((5,), a=linear(5, 4), q=zeros(4), b=linear(4, 3))
def buffer_filled_and_zeroed(net, x):
    net.q.fill_(2.0)
    y = net.a(x) + net.q
    net.q.zero_()
    return net.b(y)


@habit((5,), a=linear(5, 4), q=zeros(4), b=linear(4, 3))
def buffer_clamped(net, x):
    y = net.a(x)
    net.q.add_(y.detach().mean(0)).clamp_(-0.1, 0.1)
    return net.b(y + net.q)


@habit(a=conv(), s=ones(), b=conv(6, 3))
def buffer_written_under_no_grad(net, x):
    y = net.a(x)
    with torch.no_grad():
        net.s.mul_(0.9).add_(y.abs().mean(), alpha=0.1)
    return net.b(y / net.s)


@habit(a=conv(), s=ones(6), b=conv(6, 3))
def buffer_data_written(net, x):
    y = net.a(x)
    net.s.data.lerp_(y.data.abs().mean((0, 2, 3)), 0.5)
    return net.b(y * net.s[:, None, None])


class Meter(nn.Module):
    """A module that keeps a mean of what passes through it."""

    def __init__(self, persistent=True):
        super().__init__()
        self.register_buffer("mean", torch.zeros(6), persistent=persistent)

    def forward(self, y):
        self.mean.lerp_(y.detach().mean((0, 2, 3)), 0.3)
        return y


@habit(a=conv(), meter=Meter, b=conv(6, 3))
def buffer_of_another_module(net, x):
    y = net.meter(net.a(x))
    return net.b(y - net.meter.mean[:, None, None])


@habit(a=conv(), meter=Meter, b=conv(6, 6), c=conv(6, 3))
def buffer_of_a_module_called_twice(net, x):
    return net.c(net.meter(net.b(net.meter(net.a(x)))))


@habit(a=conv(), meter=lambda: Meter(persistent=False), b=conv(6, 3))
def written_buffer_that_is_not_persistent(net, x):
    y = net.meter(net.a(x))
    return net.b(y - net.meter.mean[:, None, None])


@habit(a=conv(), s=buffer(lambda: torch.rand(6, 1, 1), persistent=False), b=conv(6, 3))
def buffer_that_is_not_persistent(net, x):
    return net.b(net.a(x) * net.s)


@habit((5,), a=linear(5, 4), i=buffer(lambda: torch.tensor([2, 0, 3, 1]), persistent=False), b=linear(4, 3))
def index_buffer_that_is_not_persistent(net, x):
    return net.b(net.a(x)[:, net.i])


@habit((4, 6), a=linear(6, 18), t=parameter(9, 2), i=buffer(lambda: torch.arange(16) % 9, persistent=False))
def relative_position_bias(net, x):
    q, k, v = net.a(x).view(-1, 4, 3, 2, 3).permute(2, 0, 3, 1, 4).unbind(0)
    bias = net.t[net.i].view(4, 4, 2).permute(2, 0, 1)
    return ((q @ k.transpose(-2, -1) + bias).softmax(-1) @ v).transpose(1, 2).reshape(-1, 4, 6)


@habit(a=conv(), s=buffer(lambda: torch.rand(6, 1, 1)), b=conv(6, 3))
def buffer_only_read(net, x):
    return net.b(net.a(x) * net.s)


@habit(a=conv(), s=ones(6), b=conv(6, 3))
def buffer_unused(net, x):
    return net.b(net.a(x))


@habit(a=conv(), s=ones(6), b=conv(6, 3), after=lambda net: setattr(net, "scale", torch.full((1,), 2.0).double()))
def tensor_that_is_no_buffer(net, x):
    return net.b(net.a(x) * net.scale)


@habit(a=conv(), b=conv(6, 3))
def tensor_constant_lifted(net, x):
    return net.b(net.a(x) * torch.tensor([1.0, 2.0, 0.5, 1.0, 3.0, 1.0], dtype=x.dtype).view(6, 1, 1))


@habit((4, 4, 4), a=conv(4, 6, 1), r=parameter(7, 3), i=conv(6, 4, 1))
def bottleneck_with_lifted_constants(net, x):
    y = net.a(x).flatten(2).view(-1, 2, 3, 16)
    offsets = torch.tensor([[row - column + 3 for column in range(4)] for row in range(4)])
    logits = torch.einsum("nhcp,nhcq->nhpq", y, y) + (net.r[offsets].sum(-1)).repeat(4, 4)
    return net.i((logits.softmax(-1) @ y.transpose(-2, -1)).transpose(-2, -1).reshape(-1, 6, 4, 4))
