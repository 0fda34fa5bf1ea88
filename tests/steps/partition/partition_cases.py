"""Hypergraphs made by hand for the tests of this folder: VGG16 coarse, chains of layers, random ones."""

import math
from collections.abc import Sequence

import numpy as np

from hyperplace.values.hypergraph import Hypergraph, Labels

MIB = 2**20
ROWS = 32
CONVS = (64, 64, "P", 128, 128, "P", 256, 256, 256, "P", 512, 512, 512, "P", 512, 512, 512, "P")
LINEARS = (4096, 4096, 1000)


def vgg16(blocks: int = 64, costs_scale: int = 1) -> Hypergraph:
    """Return VGG16 at 224 x 224, batch 32, float32, linear layers whole; hand-counted, nothing captured."""
    layers, filters, work, map_bytes = ["x"], [3], [0], [224 * 224 * 4 * ROWS]
    side, channels = 224, 3
    for width in CONVS:
        if width == "P":
            side //= 2
            map_bytes[-1] = side * side * 4 * ROWS
            continue
        layers.append(f"conv{len(layers)}")
        filters.append(int(width))
        work.append(6 * 9 * channels * side * side * ROWS)
        map_bytes.append(side * side * 4 * ROWS)
        channels = int(width)
    features = channels * side * side
    for width in LINEARS:
        layers.append(f"fc{len(layers) - 13}")
        filters.append(width)
        work.append(6 * features * ROWS)
        map_bytes.append(4 * ROWS)
        features = width
    num_blocks = [min(blocks, n) for n in filters[:-3]] + [1, 1, 1]
    return chain(layers, filters, num_blocks, work, [b * costs_scale for b in map_bytes])


def chain(
    layers: Sequence[str],
    filters: Sequence[int],
    num_blocks: Sequence[int],
    filter_work: Sequence[int],
    map_bytes: Sequence[int],
) -> Hypergraph:
    """Return the coarse hypergraph of layers that each read all of the layer before; the first is the input."""
    layer_of, starts, stops = [], [], []
    for number, (count, blocks) in enumerate(zip(filters, num_blocks, strict=True)):
        edges = [count * b // blocks for b in range(blocks + 1)]
        layer_of += [number] * blocks
        starts += edges[:-1]
        stops += edges[1:]
    layer, start, stop = np.array(layer_of), np.array(starts), np.array(stops)
    weights = (stop - start) * np.array(filter_work)[layer]
    producers = np.flatnonzero(layer < len(layers) - 1)
    nets = [[v, *np.flatnonzero(layer == layer[v] + 1)] for v in producers]
    labels = Labels(
        layers=tuple(layers),
        layer_of=layer,
        filter_start=start,
        filter_stop=stop,
        channel_start=np.full(len(layer), -1),
        channel_stop=np.full(len(layer), -1),
        is_input=layer == 0,
        net_layer=layer[producers],
        net_is_fold=np.zeros(len(producers)),
    )
    return from_nets(
        nets,
        weights // max(1, math.gcd(*weights.tolist())),
        ((stop - start) * np.array(map_bytes)[layer])[producers],
        labels,
    )


def from_nets(
    nets: Sequence[Sequence[int]], weights: object, costs: object, labels: Labels | None = None
) -> Hypergraph:
    """Return the hypergraph of a list of nets."""
    offsets = np.cumsum([0, *map(len, nets)])
    pins = np.concatenate([np.asarray(net, np.int64) for net in nets]) if nets else []
    return Hypergraph(offsets, pins, weights, costs, labels=labels)  # type: ignore[arg-type]


def random_hypergraph(seed: int, num_vertices: int = 60, num_nets: int = 80) -> Hypergraph:
    """Return a small hypergraph with zero weights, repeated pins and single-pin nets among the ordinary ones."""
    rng = np.random.default_rng(seed)
    nets = [rng.integers(0, num_vertices, rng.integers(1, 8)).tolist() for _ in range(num_nets)]
    return from_nets(nets, rng.integers(0, 20, num_vertices), rng.integers(0, 5000, num_nets))
