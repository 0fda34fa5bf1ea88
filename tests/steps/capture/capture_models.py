"""Small models, one per way channels can flow, each with the shapes of its inputs (two rows)."""

from functools import cache

import torch
import torch.nn.functional as F
from torch import nn

from hyperplace.steps.capture import capture


class Net(nn.Module):
    """A model whose forward is the given function of (model, *inputs)."""

    def __init__(self, function, **members):
        super().__init__()
        self.function = function
        for name, member in members.items():
            setattr(self, name, member)

    def forward(self, *inputs):
        return self.function(self, *inputs)


MODELS = {}  # name -> (make, shapes)


def model(name, models=MODELS):
    """Return the model of that name with inputs, in float64 and training mode, the same at every call."""
    torch.manual_seed(0)
    make, shapes = models[name]
    net = make().double().train()
    return net, tuple(torch.randn(shape, dtype=torch.float64) for shape in shapes)


@cache
def captured(name):
    """Return the graph of the model of that name."""
    return capture(*model(name))


def add_model(*shapes, models=MODELS, **members_of):
    """Register the function below as the forward of a model; a member is made by calling what is given."""

    def register(function):
        def make():
            return Net(function, **{name: member() for name, member in members_of.items()})

        models[function.__name__] = (make, shapes or ((2, 4, 6, 6),))
        return function

    return register


def conv(channels, filters, kernel=1, **options):
    return lambda: nn.Conv2d(channels, filters, kernel, padding=kernel // 2, **options)


def linear(channels, filters):
    return lambda: nn.Linear(channels, filters)


def scale(*shape):
    return lambda: nn.Parameter(torch.randn(shape))


@add_model(a=conv(4, 6, 3), b=conv(6, 3, 3, stride=2))
def plain(net, x):
    return net.b(F.relu(net.a(x)))


@add_model(a=conv(4, 6, 3, groups=2), b=conv(6, 9, groups=3))
def grouped(net, x):
    return net.b(net.a(x))


@add_model(a=conv(4, 4, 3, groups=4), b=conv(4, 8, 3, groups=4), c=conv(8, 3))
def depthwise(net, x):
    return net.c(net.b(net.a(x)))


@add_model(a=lambda: nn.ConvTranspose2d(4, 6, 2, stride=2), b=lambda: nn.ConvTranspose2d(6, 4, 3, groups=2))
def transposed(net, x):
    return net.b(net.a(x))


@add_model((2, 4, 9), (2, 3, 4, 4, 4), a=lambda: nn.Conv1d(4, 5, 3), b=lambda: nn.Conv3d(3, 4, 2, groups=1))
def one_and_three_dimensions(net, x, y):
    return F.max_pool1d(net.a(x), 2), F.avg_pool3d(net.b(y), 3)


@add_model(a=conv(4, 6, 3), b=linear(6 * 9, 5), c=linear(5, 2))
def linear_after_flatten(net, x):
    return net.c(torch.tanh(net.b(F.max_pool2d(net.a(x), 2).flatten(1))))


@add_model(a=conv(4, 3), b=conv(4, 5), n=lambda: nn.BatchNorm2d(8), c=conv(8, 4))
def bn_after_concat(net, x):
    return net.c(F.relu(net.n(torch.cat([net.a(x), net.b(x)], 1))))


@add_model(a=conv(4, 6), b=conv(6, 2), c=conv(2, 6))
def channel_gate(net, x):
    x = net.a(x)
    return x * torch.sigmoid(net.c(F.silu(net.b(F.adaptive_avg_pool2d(x, 1)))))


@add_model(a=conv(4, 6), b=conv(6, 1), c=conv(6, 3))
def spatial_gate(net, x):
    x = net.a(x)
    return net.c(torch.sigmoid(net.b(x)) * x)


@add_model(a=conv(4, 4, 3), n=lambda: nn.BatchNorm2d(4), b=conv(4, 4, 3), c=conv(4, 2))
def residual_in_place(net, x):
    out = F.relu_(net.n(net.a(x)))
    out = net.b(out)
    out += x
    return net.c(F.relu_(out))


@add_model(a=conv(4, 6), b=conv(3, 2), c=conv(2, 4), d=conv(1, 2), e=conv(4, 3))
def chunks_and_slices(net, x):
    y = net.a(x)
    low, high = y.chunk(2, 1)
    two, rest = y.split([2, 4], 1)
    return net.b(low), F.relu(high), net.c(two), net.e(rest), net.d(y[:, -1:])


@add_model(a=conv(4, 8), b=conv(8, 8, 3, groups=8), c=conv(8, 6, groups=2))
def channel_shuffle(net, x):
    y = net.a(x)
    n, c, h, w = y.shape
    return net.c(net.b(y.view(n, 2, c // 2, h, w).transpose(1, 2).reshape(n, c, h, w)))


@add_model(a=conv(4, 8), b=conv(4, 4))
def shuffle_then_split(net, x):
    y = net.a(x)
    y = y.reshape(-1, 4, 2, 6, 6).permute(0, 2, 1, 3, 4).reshape(-1, 8, 6, 6)
    kept, worked = y.chunk(2, dim=1)
    return torch.cat([kept, F.relu(net.b(worked))], 1)


@add_model(a=conv(4, 3), b=conv(4, 5), d=conv(8, 8, 3, groups=8))
def concat_then_depthwise(net, x):
    return net.d(torch.cat((net.a(x), net.b(x)), dim=1))


@add_model(a=conv(4, 3), d=conv(6, 6, groups=6), c=conv(6, 2))
def concat_with_itself(net, x):
    y = net.a(x)
    y = torch.cat([y, y], 1)
    return net.d(y), net.c(y)


@add_model(a=conv(4, 6), b=linear(6, 3))
def global_pools(net, x):
    y = net.a(x)
    return net.b(y.mean((2, 3))), y.amax((-1, -2)), y.sum(dim=3, keepdim=True)


@add_model(a=conv(4, 3), b=linear(108, 4), c=linear(108, 2))
def flatten_shared(net, x):
    y = net.a(x).flatten(1)
    return net.b(y), net.c(y)


@add_model(a=conv(4, 3), b=conv(3, 2))
def flatten_and_back(net, x):
    y = net.a(x).flatten(1)
    return net.b(y.unflatten(1, (3, 6, 6))), y


@add_model((2, 4), a=linear(4, 12), b=lambda: nn.ConvTranspose2d(3, 4, 2))
def linear_to_maps(net, x):
    return net.b(net.a(x).unflatten(1, (3, 2, 2)))


@add_model(a=conv(4, 8), b=conv(2, 3))
def pixel_shuffle(net, x):
    return net.b(F.pixel_shuffle(net.a(x), 2))


@add_model(a=conv(4, 5), b=conv(5, 3))
def softmaxes(net, x):
    y = net.a(x)
    return net.b(y.softmax(1)), y.flatten(2).softmax(-1)


@add_model(a=conv(4, 3), n=lambda: nn.LayerNorm([3, 6, 6]), m=lambda: nn.LayerNorm(6))
def layer_norm(net, x):
    return net.m(net.n(net.a(x)))


@add_model(a=conv(4, 3), b=conv(3, 3), p=lambda: nn.PReLU(), q=lambda: nn.PReLU(3))
def prelus(net, x):
    return net.q(net.b(net.p(net.a(x))))


@add_model(
    a=conv(4, 6),
    g=lambda: nn.GroupNorm(3, 6),
    h=lambda: nn.GroupNorm(1, 6),
    i=lambda: nn.InstanceNorm2d(6, affine=True),
)
def norms(net, x):
    return net.i(net.h(net.g(net.a(x))))


@add_model(a=conv(4, 3), s=scale(1, 3, 1, 1), t=scale(3, 1, 1), u=scale(1), b=conv(3, 3))
def learned_scales(net, x):
    return net.b(net.a(x) * net.s + net.t) * net.u


@add_model(a=lambda: nn.utils.parametrizations.weight_norm(nn.Conv2d(4, 3, 3)), b=conv(3, 2))
def weight_norm(net, x):
    return net.b(net.a(x))


@add_model((2, 5, 4), a=lambda: nn.LSTM(4, 3, batch_first=True), b=linear(15, 2))
def lstm(net, x):
    return net.b(net.a(x)[0].flatten(1))


@add_model((2, 5, 4), a=lambda: nn.MultiheadAttention(4, 2, batch_first=True), n=lambda: nn.LayerNorm(4))
def attention(net, x):
    return net.n(x + net.a(x, x, x, need_weights=False)[0])


@add_model((2, 4, 6, 6), (2, 3), a=conv(4, 3), b=linear(3, 3))
def several_inputs_and_outputs(net, x, y):
    maps, gate = net.a(x), net.b(y)
    return {"gated": maps * gate[:, :, None, None], "both": (maps, [gate])}


@add_model(a=conv(4, 3), b=conv(3, 3))
def one_output_twice(net, x):
    y = net.a(x)
    return y, net.b(y), y


@add_model(a=conv(4, 4), b=conv(4, 3), c=conv(4, 3))
def in_place_then_read_again(net, x):
    y = net.a(x)
    before = net.b(y)
    F.relu_(y)
    return before + net.c(y)


@add_model(a=conv(4, 4), b=conv(4, 3), c=conv(4, 3))
def in_place_result_and_argument(net, x):
    y = net.a(x)
    z = F.relu_(y)
    return net.b(F.max_pool2d(z, 2)), net.c(y)


@add_model(a=conv(4, 4), b=conv(4, 2))
def constants(net, x):
    y = net.a(x) * 2.0 + torch.arange(6, dtype=x.dtype)
    return net.b(1 - y / 3), torch.ones(3, 1, 1, dtype=x.dtype) * x[:, :3]


@add_model(a=conv(4, 4), b=conv(4, 3), c=conv(4, 2))
def dead_code(net, x):
    y = net.a(x)
    net.b(y).relu()
    return net.c(y)


@add_model(a=conv(4, 5), b=conv(1, 3), c=conv(6, 2))
def over_channels(net, x):
    y = net.a(x)
    return net.b(y.mean(1, keepdim=True)), net.c(y.transpose(1, 2)), y.transpose(2, 3), y.permute(0, 2, 3, 1)


@add_model(a=conv(4, 4), b=conv(4, 4), c=conv(8, 3))
def dense_branches(net, x):
    y = net.a(x)
    z = net.b(F.relu(y)) + y
    return net.c(F.pad(F.interpolate(torch.cat([z, y], 1), scale_factor=2), (1, 1)))


@add_model(a=conv(4, 6), d=lambda: nn.Conv1d(12, 12, 1, groups=12), e=lambda: nn.Conv1d(12, 6, 1, groups=3))
def halved_maps(net, x):
    y = net.a(x).reshape(-1, 12, 18)
    return net.e(net.d(y))


@add_model(a=conv(4, 6), b=conv(4, 6), c=conv(6, 2))
def several_operands(net, x):
    one, two = net.a(x), net.b(x)
    return net.c(torch.where(torch.maximum(one, two) > 0, one, two * x[:, :1])), torch.cat([one, two], 3)


@add_model(a=conv(4, 3), b=conv(3, 2, bias=False))
def batch_into_rows(net, x):
    y = net.a(x).permute(0, 2, 3, 1).reshape(-1, 3)
    return (y @ net.b.weight.flatten(1).t()).sum()
