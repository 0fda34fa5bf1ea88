"""Norms and activations of every kind."""

from habit import conv, habit, linear
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import parametrizations

NORMS = {
    "norm_instance": lambda: nn.InstanceNorm2d(6),
    "norm_instance_affine": lambda: nn.InstanceNorm2d(6, affine=True),
    "norm_instance_running": lambda: nn.InstanceNorm2d(6, affine=True, track_running_stats=True),
    "norm_group": lambda: nn.GroupNorm(3, 6),
    "norm_group_of_one": lambda: nn.GroupNorm(1, 6),
    "norm_layer_over_maps": lambda: nn.LayerNorm([6, 8, 8]),
    "norm_layer_over_width": lambda: nn.LayerNorm(8),
    "norm_local_response": lambda: nn.LocalResponseNorm(3),
    "norm_rms": lambda: nn.RMSNorm([6, 8, 8]),
    "norm_batch": lambda: nn.BatchNorm2d(6),
    "norm_batch_without_affine": lambda: nn.BatchNorm2d(6, affine=False),
    "norm_batch_without_running": lambda: nn.BatchNorm2d(6, track_running_stats=False),
}


for _name, _norm in NORMS.items():

    @habit(name=_name, a=conv(), n=_norm, b=conv(6, 3))
    def _(net, x):
        return net.b(F.relu(net.n(net.a(x))))


@habit((5, 4), a=linear(4, 6), n=lambda: nn.LayerNorm(6), r=lambda: nn.RMSNorm(6), b=linear(6, 3))
def norms_of_tokens(net, x):
    return net.b(net.r(F.gelu(net.n(net.a(x)))))


@habit(a=conv(), n=lambda: nn.LayerNorm(6), b=conv(6, 3))
def channels_last_layer_norm(net, x):
    return net.b(net.n(net.a(x).permute(0, 2, 3, 1)).permute(0, 3, 1, 2))


@habit(a=lambda: parametrizations.weight_norm(nn.Conv2d(4, 6, 3)), b=conv(6, 3))
def weight_norm(net, x):
    return net.b(F.relu(net.a(x)))


@habit(a=lambda: parametrizations.spectral_norm(nn.Conv2d(4, 6, 3)), b=conv(6, 3))
def spectral_norm(net, x):
    return net.b(F.relu(net.a(x)))


@habit((5,), a=lambda: parametrizations.orthogonal(nn.Linear(5, 5)), b=linear(5, 3))
def orthogonal(net, x):
    return net.b(F.relu(net.a(x)))


@habit(a=conv(), p=nn.PReLU, b=conv(6, 3), q=lambda: nn.PReLU(3))
def prelu_one_and_per_channel(net, x):
    return net.q(net.b(net.p(net.a(x))))


FAMILIES = {
    "activations_relu": (nn.ReLU, nn.ReLU6, nn.LeakyReLU, nn.Hardtanh, nn.Threshold),
    "activations_smooth": (nn.ELU, nn.SELU, nn.CELU, nn.GELU, nn.SiLU, nn.Mish, nn.Softplus),
    "activations_hard": (nn.Hardswish, nn.Hardsigmoid, nn.Hardshrink, nn.Softshrink, nn.Tanhshrink),
    "activations_sigmoid": (nn.Sigmoid, nn.Tanh, nn.LogSigmoid, nn.Softsign),
}


for _name, _kinds in FAMILIES.items():

    def _activations(kinds=_kinds):
        return nn.ModuleList(kind(0.1, 0.0) if kind is nn.Threshold else kind() for kind in kinds)

    @habit(name=_name, a=conv(), acts=_activations, b=conv(6, 3))
    def _(net, x):
        y = net.a(x)
        return net.b(sum(act(y) for act in net.acts))


@habit(a=conv(), b=conv(6, 4), c=conv(2, 3))
def activations_over_channels(net, x):
    y = net.a(x)
    return net.c(F.glu(net.b(F.softmax(y, 1) + F.log_softmax(y, 1) + F.softmin(y, 1)), 1))


@habit(a=conv(4, 12), b=conv(6, 3))
def maxout(net, x):
    y = net.a(x)
    return net.b(y.view(y.shape[0], 6, 2, 8, 8).amax(2))
