"""Runs made by hand and from small models, and answers to compare with that know nothing of shares."""

from functools import cache
from itertools import product

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from hyperplace.models import load_model
from hyperplace.steps.build import build_runs
from hyperplace.steps.capture import capture
from hyperplace.steps.profile.work import count_flops
from hyperplace.values.partition import Partition, volume_bytes
from hyperplace.values.runs import Links, Runs, Shares

MIB = 2**20


def runs_of(sizes, work, map_bytes, *, reads=(), ties=(), solid=()):
    """Return runs one per layer; reads and ties are (producer, reader) pairs."""
    readers, tied = [set() for _ in sizes], [set() for _ in sizes]
    for lists, pairs in ((readers, reads), (tied, ties)):
        for producer, reader in pairs:
            lists[producer].add(reader)
    return Runs(
        layers=tuple(f"layer{i}" for i in range(len(sizes))),
        start=np.zeros(len(sizes), np.int64),
        sizes=np.array(sizes),
        work=np.array(work, np.float64),
        map_bytes=np.array(map_bytes),
        is_solid=np.array([int(i in solid) for i in range(len(sizes))]),
        readers=Links.of(readers),
        tied=Links.of(tied),
    )


# Who reads all of whom, who reads whom channel by channel: at most five layers.
SHAPES = {
    "pair": (2, [(0, 1)], []),
    "chain": (4, [(0, 1), (1, 2), (2, 3)], []),
    "residual": (4, [(0, 1), (2, 3)], [(0, 2), (1, 2)]),
    "two_adds": (5, [(0, 1), (2, 3)], [(0, 2), (1, 2), (2, 4), (3, 4)]),
    "branches": (4, [(0, 1), (0, 2), (1, 3), (2, 3)], []),
    "apart": (3, [(0, 2)], []),
}


def random_runs(shape, seed, *, most=4, largest=3, scale=MIB):
    """Return random runs of a shape with at most `largest` filters per layer; tied runs are equally large."""
    random = np.random.default_rng([seed, *shape.encode()])
    count, reads, ties = SHAPES[shape]
    sizes = random.integers(1, largest + 1, count)
    for _ in range(count):
        for one, other in ties:
            sizes[other] = sizes[one] = min(sizes[one], sizes[other])
    work = random.integers(0, 6, count) * 1.0
    work[-1] += 1  # never nothing at all
    solid = [r for r in range(count) if random.random() < 0.15 and not any(r in tie for tie in ties)]
    return runs_of(sizes, work, random.integers(1, most + 1, count) * scale, reads=reads, ties=ties, solid=solid)


def limits_of(runs, num_parts, imbalance):
    """Return the most work of every part."""
    return np.full(num_parts, (1 + imbalance) * runs.total_work / num_parts)


def best_of_all_placements(runs, limits):
    """Return the least bytes of any balanced placement of the single filters, or inf: no shares, no symmetry."""
    first, num_parts = np.concatenate([[0], np.cumsum(runs.sizes)]), len(limits)
    parts = np.array(list(product(range(num_parts), repeat=int(first[-1]))), np.int8)
    bit = np.left_shift(1, parts.astype(np.int16))
    bytes_moved, allowed = np.zeros(len(parts), np.int64), np.ones(len(parts), bool)
    for part in range(num_parts):
        allowed &= (parts == part) @ np.repeat(runs.work, runs.sizes) <= limits[part] * (1 + 1e-12)
    for run in range(len(runs.sizes)):
        mine = range(first[run], first[run + 1])
        if runs.is_solid[run]:
            allowed &= np.all(parts[:, mine] == parts[:, [first[run]]], axis=1)
        for offset, filter_ in enumerate(mine):
            touched = bit[:, filter_].copy()
            for reader in runs.readers[run]:
                touched |= np.bitwise_or.reduce(bit[:, first[reader] : first[reader + 1]], axis=1)
            for reader in runs.tied[run]:
                touched |= bit[:, first[reader] + offset]
            bytes_moved += (np.bitwise_count(touched).astype(np.int64) - 1) * int(runs.map_bytes[run])
    return int(bytes_moved[allowed].min()) if allowed.any() else np.inf


def best_of_two_part_counts(runs, limits):
    """Return the least bytes of any balanced counts on two parts, by trying all; tied runs lie on each other."""
    counts = np.array(list(product(*(range(size + 1) for size in runs.sizes.tolist()))))
    total, allowed = np.zeros(len(counts)), np.ones(len(counts), bool)
    for here, limit in zip((counts, runs.sizes - counts), limits, strict=True):
        allowed &= here @ runs.work <= limit * (1 + 1e-12)
        for run in range(len(runs.sizes)):
            needed = np.zeros(len(counts))
            for reader in runs.tied[run]:
                needed = np.maximum(needed, here[:, reader])
            for reader in runs.readers[run]:
                needed = np.maximum(needed, (here[:, reader] > 0) * runs.sizes[run])
            total += np.maximum(needed - here[:, run], 0) * runs.map_bytes[run]
    for run in np.flatnonzero(runs.is_solid):
        allowed &= (counts[:, run] == 0) | (counts[:, run] == runs.sizes[run])
    return float(total[allowed].min()) if allowed.any() else np.inf


def random_shares(runs, num_parts, seed):
    """Return random counts, some parts without any, solid runs on one part."""
    random = np.random.default_rng(seed)
    rows = []
    for size, solid in zip(runs.sizes.tolist(), runs.is_solid.tolist(), strict=True):
        chance = random.dirichlet(np.full(num_parts, 0.5))
        row = random.multinomial(size, chance)
        rows.append(np.eye(num_parts, dtype=np.int64)[random.integers(num_parts)] * size if solid else row)
    return Shares(np.array(rows), "random")


def hypergraph_volume(hypergraph, layout):
    """Return the volume of a hypergraph of single filters where every filter lies with its owner."""
    return volume_bytes(hypergraph, filters_apart(hypergraph, layout))


def filters_apart(hypergraph, layout):
    """Return the layout as a partition of single filters, found filter by filter."""
    labels = hypergraph.labels
    owners = {name: plane.part_of_line for name, plane in layout.owners.items()}
    names = [labels.layers[number] for number in labels.layer_of]
    parts = [owners[name][start] for name, start in zip(names, labels.filter_start.tolist(), strict=True)]
    return Partition(np.array(parts), layout.num_parts)


class Net(nn.Module):
    def __init__(self, function, **members):
        super().__init__()
        self.function = function
        for name, member in members.items():
            setattr(self, name, member)

    def forward(self, x):
        return self.function(self, x)


def conv(inputs, filters, **options):
    return nn.Conv2d(inputs, filters, 1, **options)


def _stage(net, x):
    y = F.relu(net.a(x))
    y = F.relu(net.b2(F.relu(net.b1(y))) + y)
    y = F.relu(net.c2(F.relu(net.c1(y))) + y)
    return net.d(y)


def _concat(net, x):
    y = net.a(x)
    return net.d(torch.cat([net.b(y), net.c(y)], 1))


def _slices(net, x):
    y = net.a(x)
    return net.b(y[:, :3]), net.c(y[:, 2:])


def _bypass(net, x):
    y = net.a(x)
    return net.c(net.d(y) + y)


def _halves(net, x):
    low, high = net.a(x.flatten(1)).chunk(2, 1)
    return net.b(low), net.c(high)


def _two_readers(net, x):
    y = net.a(x)
    return net.d(net.b(y) + y), net.e(net.c(x) + y)


def _whole_gate(net, x):
    y = net.a(x)
    gate = net.g(y.mean((2, 3)))
    return net.c(y * gate[:, :, None, None])


# Models whose ties, if any, form a tree where nobody is read channel by channel by two.
EQUAL = {
    "chain": lambda: nn.Sequential(conv(3, 5), nn.ReLU(), conv(5, 7), nn.ReLU(), conv(7, 4)),
    "residual": lambda: Net(
        lambda n, x: n.c(F.relu(n.b(n.a(x)) + n.s(x))), a=conv(3, 6), b=conv(6, 8), s=conv(3, 8), c=conv(8, 3)
    ),
    "residual stage": lambda: Net(
        _stage, a=conv(3, 9), b1=conv(9, 4), b2=conv(4, 9), c1=conv(9, 5), c2=conv(5, 9), d=conv(9, 4)
    ),
    "concat": lambda: Net(_concat, a=conv(3, 6), b=conv(6, 4), c=conv(6, 5), d=conv(9, 3)),
    "grouped": lambda: nn.Sequential(conv(3, 8), nn.ReLU(), conv(8, 12, groups=4), nn.ReLU(), conv(12, 5)),
    "depthwise": lambda: nn.Sequential(conv(3, 8), conv(8, 8, groups=8), nn.ReLU6(), conv(8, 5)),
    "flattened": lambda: nn.Sequential(conv(3, 6), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(24, 10), nn.Linear(10, 4)),
    "whole softmax": lambda: nn.Sequential(conv(3, 6), nn.Softmax(1), conv(6, 5), conv(5, 3)),
    "slices": lambda: Net(_slices, a=conv(3, 8), b=conv(3, 4), c=conv(6, 4)),
}
# Models that read only some channels of a layer that is never split.
SLICED_WHOLE = {
    "whole then grouped": lambda: nn.Sequential(conv(3, 8), nn.Softmax(1), conv(8, 8, groups=2), conv(8, 3)),
    "whole then depthwise": lambda: nn.Sequential(conv(3, 8), nn.Softmax(1), conv(8, 8, groups=8), conv(8, 3)),
    "whole then add": lambda: Net(
        lambda n, x: n.c(n.b(x) + n.a(x).softmax(1)), a=conv(3, 8), b=conv(3, 8), c=conv(8, 3)
    ),
    "whole linear in slices": lambda: Net(_halves, a=nn.Linear(48, 8), b=nn.Linear(4, 6), c=nn.Linear(4, 5)),
    "whole gate": lambda: Net(_whole_gate, a=conv(3, 8), g=nn.Linear(8, 8), c=conv(8, 3)),
}
# Models where a run is read channel by channel by two, or a filter by several features.
AT_LEAST = {
    "two readers": lambda: Net(_two_readers, a=conv(3, 8), b=conv(8, 8), c=conv(3, 8), d=conv(8, 3), e=conv(8, 2)),
    "residual depthwise": lambda: Net(_bypass, a=conv(3, 8), d=conv(8, 8, groups=8), c=conv(8, 4)),
    "wide gate": lambda: Net(
        lambda n, x: n.a(x).flatten(1) * n.b(x.flatten(1)), a=nn.Conv2d(3, 6, 1, stride=2), b=nn.Linear(48, 24)
    ),
}
MODELS = {**EQUAL, **SLICED_WHOLE, **AT_LEAST}


@cache
def captured(name):
    with torch.device("meta"):
        return capture(MODELS[name](), torch.empty(2, 3, 4, 4))


@cache
def vgg16_runs():
    """Return VGG16 as the issue's table has it: flops, batch 32, linear layers whole."""
    loaded = load_model("vgg16")
    graph = capture(loaded.module, loaded.sample)
    return build_runs(graph, count_flops(graph, 32), fc="whole")
