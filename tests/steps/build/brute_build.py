"""DESIGN section 4 word by word, per filter, with sets and dicts: slow, plain, and written without looking at build."""

from collections import Counter, defaultdict

import torch
import torch.nn.functional as F
from torch import nn

from hyperplace.steps.capture import capture


def channel_makers(operand):
    """Return the (layer, filter) that every channel of the operand comes from."""
    return [(s.layer, f) for s in operand.sources for f in range(s.start, s.stop) for _ in range(s.width)]


def channels_of_filter(layer, operand, number):
    """Return the set of channels of the operand that one filter reads."""
    total = operand.num_channels
    if operand.reads == "all":
        return set(range(total))
    if operand.reads == "same":
        return {number}
    per_filter, per_channel = layer.num_filters // layer.groups, total // layer.groups
    return {c for c in range(total) if c // per_channel == number // per_filter}


def brute(graph, batch, grain, solid_linears=False):
    """Return (vertex -> work, Counter of (frozenset of vertices, cost)).

    A vertex is (layer, filter, None), a kernel (layer, filter, its first channel in the operand).
    """
    work, readers, folds = {}, defaultdict(set), defaultdict(set)
    solid = {layer.name for layer in graph.layers if solid_linears and layer.kind == "linear"}

    def vertex(layer, number):
        return (layer, 0 if layer in solid else number, None)

    for layer in graph.layers:
        total = 6 * layer.macs * batch
        kernels = grain == "fine" and layer.sums_channels and layer.name not in solid
        pairs = layer.num_filters * (layer.operands[0].num_channels // layer.groups) if kernels else 0
        for number in range(layer.num_filters):
            me = vertex(layer.name, number)
            work[me] = work.get(me, 0) + (0 if kernels else total / layer.num_filters)
            for operand in layer.operands:
                makers = channel_makers(operand)
                for channel in sorted(channels_of_filter(layer, operand, number)):
                    if not kernels:
                        readers[makers[channel]].add(me)
                        continue
                    first = channel
                    while first - 1 in channels_of_filter(layer, operand, number) and _same_run(makers, first):
                        first -= 1
                    kernel = (layer.name, number, first)
                    work[kernel] = work.get(kernel, 0) + total / pairs
                    readers[makers[channel]].add(kernel)
                    folds[me].add(kernel)
    nets = Counter()
    for layer in graph.layers:
        groups = [range(layer.num_filters)] if layer.name in solid else [[f] for f in range(layer.num_filters)]
        for filters in groups:
            me = vertex(layer.name, filters[0])
            pins = {me}.union(*(readers[layer.name, f] for f in filters))
            if len(pins) > 1:
                nets[frozenset(pins), len(filters) * layer.map_bytes * batch] += 1
            if folds[me]:
                nets[frozenset(folds[me] | {me}), len(filters) * layer.partial_bytes * batch] += 1
    return work, nets


def _same_run(makers, channel):
    """Say whether this channel and the one before are features of one flattened filter."""
    return makers[channel - 1] == makers[channel]


def built(hypergraph):
    """Return a per-filter hypergraph in the same terms."""
    labels = hypergraph.labels
    unit = float(hypergraph.work_unit.split()[0])
    keys = [
        (labels.layers[layer], start, channel if channel >= 0 else None)
        for layer, start, channel in zip(
            labels.layer_of.tolist(), labels.filter_start.tolist(), labels.channel_start.tolist(), strict=True
        )
    ]
    assert len(set(keys)) == len(keys)
    work = dict(zip(keys, (hypergraph.weights * unit).tolist(), strict=True))
    nets = Counter()
    for number, cost in enumerate(hypergraph.costs.tolist()):
        pins = hypergraph.net(number).tolist()
        assert len(set(pins)) == len(pins)
        nets[frozenset(keys[p] for p in pins), cost] += 1
    return work, nets


class Net(nn.Module):
    def __init__(self, function, **members):
        super().__init__()
        self.function = function
        for name, member in members.items():
            setattr(self, name, member)

    def forward(self, x):
        return self.function(self, x)


def _residual(net, x):
    y = net.a(x)
    return net.c(F.relu(net.d(y) + y))


def _dense(net, x):
    y = net.a(x)
    z = torch.cat([y, net.b(y), y[:, :2]], 1)
    return net.d(z), net.c(z)


def _gated(net, x):
    y = net.a(x)
    return net.c(y * torch.sigmoid(net.b(y.mean((2, 3), keepdim=True))) * net.s(y))


def _shuffled(net, x):
    y = net.a(x).view(-1, 2, 4, 4, 4).transpose(1, 2).reshape(-1, 8, 4, 4)
    low, high = net.g(y).chunk(2, 1)
    return net.d(low) + high


def _flattened(net, x):
    y = F.max_pool2d(net.a(x), 2).flatten(1)
    return net.c(F.relu(net.b(y)))


def _whole_inside(net, x):
    return net.c(net.b(net.a(x).softmax(1)))


def conv(*sizes, **options):
    return nn.Conv2d(*sizes, **options)


SMALL = {
    "plain": lambda: Net(lambda n, x: n.b(F.relu(n.a(x))), a=conv(3, 5, 1), b=conv(5, 4, 1)),
    "residual": lambda: Net(_residual, a=conv(3, 6, 1), d=conv(6, 6, 1, groups=6), c=conv(6, 3, 1)),
    "dense": lambda: Net(_dense, a=conv(3, 4, 1), b=conv(4, 3, 1), d=conv(9, 9, 1, groups=9), c=conv(9, 2, 1)),
    "gated": lambda: Net(_gated, a=conv(3, 6, 1), b=conv(6, 6, 1), s=conv(6, 1, 1), c=conv(6, 4, 1, groups=2)),
    "shuffled": lambda: Net(_shuffled, a=conv(3, 8, 1), g=conv(8, 8, 1, groups=2), d=conv(4, 4, 1)),
    "multiplier": lambda: Net(lambda n, x: n.c(n.b(x)), b=conv(3, 6, 1, groups=3), c=conv(6, 6, 1, groups=3)),
    "flattened": lambda: Net(_flattened, a=conv(3, 5, 1), b=nn.Linear(20, 6), c=nn.Linear(6, 2)),
    "whole": lambda: Net(_whole_inside, a=conv(3, 4, 1), b=conv(4, 4, 1), c=conv(4, 2, 1)),
    "whole_then_grouped": lambda: Net(lambda n, x: n.b(n.a(x).softmax(1)), a=conv(3, 4, 1), b=conv(4, 4, 1, groups=2)),
    "group_within_a_filter": lambda: Net(
        lambda n, x: n.b(n.a(x).reshape(-1, 12, 4)), a=conv(3, 3, 1), b=nn.Conv1d(12, 4, 1, groups=2)
    ),
    "wide_gate": lambda: Net(
        lambda n, x: n.a(x).flatten(1) * n.b(x.flatten(1)), a=conv(3, 6, 1, stride=2), b=nn.Linear(48, 24)
    ),
    "norm": lambda: Net(lambda n, x: n.c(n.n(n.a(x))), a=conv(3, 6, 1), n=nn.GroupNorm(3, 6), c=conv(6, 2, 1)),
}


def small_graph(name):
    return capture(SMALL[name](), torch.randn(2, 3, 4, 4))
