"""Parameters: tied, bare, frozen, unused, and made in forward."""

import copy

import torch
from habit import BATCH, bn, conv, copies, frozen, habit, linear, parameter, tokens
from torch import nn
from torch.nn import functional as F


@habit(a=conv(4, 4), b=conv(4, 3))
def module_called_twice(net, x):
    return net.b(F.relu(net.a(F.relu(net.a(x)))))


@habit(a=conv(4, 4), n=bn(4), b=conv(4, 3))
def norm_called_twice(net, x):
    return net.b(net.n(net.a(net.n(x))))


@habit((5,), (5,), a=linear(5, 6), b=linear(6, 3))
def siamese(net, x, y):
    return net.b(F.relu(net.a(x))), net.b(F.relu(net.a(y)))


@habit(a=conv(4, 4), c=conv(4, 4), after=lambda net: setattr(net.c, "weight", net.a.weight))
def two_layers_one_weight(net, x):
    return net.c(F.relu(net.a(x)))


@habit(a=conv(4, 4), c=conv(4, 4), after=lambda net: setattr(net, "again", net.a))
def one_module_two_names(net, x):
    return net.again(F.relu(net.c(net.a(x))))


@habit(
    tokens(5, 7),
    e=lambda: nn.Embedding(7, 4),
    a=linear(4, 4),
    o=linear(4, 7, bias=False),
    after=lambda net: setattr(net.o, "weight", net.e.weight),
)
def embedding_tied_to_the_output(net, i):
    return net.o(net.a(net.e(i)).tanh())


@habit((5,), a=linear(5, 6), b=linear(6, 3))
def weight_used_transposed_as_well(net, x):
    y = net.a(x).tanh()
    return net.b(y), F.linear(y, net.a.weight.t())


@habit((5,), a=linear(5, 4, bias=False), b=linear(4, 4))
def tied_within_a_whole_operation(net, x):
    return net.b((x @ net.a.weight.t()).softmax(0) @ net.b.weight)


@habit(
    a=lambda: nn.Sequential(nn.Conv2d(4, 4, 1), nn.ReLU(), nn.Conv2d(4, 4, 1)),
    b=lambda: nn.Sequential(nn.Conv2d(4, 4, 1), nn.ReLU(), nn.Conv2d(4, 4, 1)),
    after=lambda net: setattr(net.b[2], "weight", net.a[2].weight),
)
def halves_that_share_a_parameter(net, x):
    return net.b(net.a(x))


@habit((4, 5), cell=lambda: nn.RNNCell(5, 6), b=linear(6, 3))
def recurrent_cell_in_a_loop(net, x):
    h = x.new_zeros(x.shape[0], 6)
    for step in x.unbind(1):
        h = net.cell(step, h)
    return net.b(h)


@habit(layers=lambda: copies(nn.Conv2d(4, 4, 3, padding=1), 3))
def deep_copies_in_a_list(net, x):
    for layer in net.layers:
        x = F.relu(layer(x)) + x
    return x


@habit(layers=lambda: nn.ModuleDict({"one": nn.Conv2d(4, 4, 1), "two": nn.Conv2d(4, 3, 1)}))
def layers_in_a_dict(net, x):
    return net.layers["two"](F.relu(net.layers["one"](x)))


@habit((5,), ps=lambda: nn.ParameterList([nn.Parameter(torch.rand(5, 4)), nn.Parameter(torch.rand(4, 3))]))
def parameters_in_a_list(net, x):
    return (x @ net.ps[0]).tanh() @ net.ps[1]


@habit(a=conv(), s=parameter(1), t=parameter(6, 1, 1), b=conv(6, 3))
def bare_scales(net, x):
    return net.b(net.a(x) * net.s + net.t)


@habit(a=conv(), g=lambda: nn.Parameter(torch.full((6,), 1e-1)), b=conv(6, 6), c=conv(6, 3))
def layer_scale(net, x):
    y = net.a(x)
    return net.c(y + net.b(y) * net.g.view(1, -1, 1, 1))


@habit((4, 5), a=linear(5, 6), p=parameter(1, 4, 6), b=linear(6, 3))
def positional_embedding(net, x):
    return net.b((net.a(x) + net.p).mean(1))


@habit((4, 8, 8), a=conv(), p=parameter(1, 6, 4, 4), b=conv(6, 3))
def positional_embedding_interpolated(net, x):
    return net.b(net.a(x) + F.interpolate(net.p, size=(8, 8), mode="bilinear"))


@habit(a=conv(), t=lambda: nn.Parameter(torch.zeros(())), b=conv(6, 3))
def learned_temperature(net, x):
    return net.b(net.a(x)) * net.t.exp()


@habit((5,), w=parameter(6, 5), b=linear(6, 3))
def weight_made_in_forward(net, x):
    return net.b(F.linear(x, net.w - net.w.mean(1, keepdim=True)))


@habit(w=parameter(6, 4, 3, 3), b=conv(6, 3))
def standardised_weights(net, x):
    mean = net.w.mean((1, 2, 3), keepdim=True)
    return net.b(F.conv2d(x, (net.w - mean) / net.w.std((1, 2, 3), keepdim=True), padding=1))


@habit(a=conv(), b=conv(6, 6), c=conv(6, 3), after=frozen("a"))
def frozen_front(net, x):
    return net.c(F.relu(net.b(F.relu(net.a(x)))))


@habit(a=conv(), b=conv(6, 6), c=conv(6, 3), after=frozen("c"))
def frozen_end(net, x):
    return net.c(F.relu(net.b(F.relu(net.a(x)))))


@habit(a=conv(), b=conv(6, 3), after=lambda net: net.a.bias.requires_grad_(False))
def frozen_bias(net, x):
    return net.b(F.relu(net.a(x)))


@habit(a=conv(), n=bn(), b=conv(6, 3), after=lambda net: net.n.eval())
def norm_in_evaluation_mode(net, x):
    return net.b(F.relu(net.n(net.a(x))))


@habit(a=conv(), n=bn(), b=conv(6, 3), after=lambda net: net.n.eval().requires_grad_(False))
def norm_frozen_altogether(net, x):
    return net.b(F.relu(net.n(net.a(x))))


@habit(a=conv(), n=bn(momentum=None), b=conv(6, 3))
def norm_with_cumulative_average(net, x):
    return net.b(F.relu(net.n(net.a(x))))


@habit(a=conv(), b=conv(6, 3), after=lambda net: net.requires_grad_(False))
def everything_frozen(net, x):
    return net.b(F.relu(net.a(x)))


@habit(a=conv(), b=conv(6, 3), unused=conv(6, 2), p=parameter(3))
def unused_layer_and_parameter(net, x):
    return net.b(F.relu(net.a(x)))


@habit(a=conv(), b=conv(6, 3), unused=bn(6))
def result_that_nobody_reads(net, x):
    y = net.a(x)
    net.unused(y)
    return net.b(y)


@habit(a=conv(), b=conv(6, 3), after=lambda net: setattr(net, "teacher", copy.deepcopy(net.a).requires_grad_(False)))
def frozen_copy_as_a_teacher(net, x):
    return net.b(F.relu(net.a(x))), net.teacher(x)


@habit((5,), a=linear(5, 6), v=parameter(BATCH), b=linear(6, 3))
def parameter_of_the_batch_size_summed(net, x):
    return net.b(net.a(x)) * net.v.sum()
