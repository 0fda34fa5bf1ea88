"""Count the work of every layer: 3 x 2 x multiply-adds per mini-batch (forward, and two products backward)."""

from hyperplace.steps.profile.work import analytic
from hyperplace.values.graph import Graph, Layer
from hyperplace.values.profile import LayerCost, Profile


def count_flops(graph: Graph, batch: int) -> Profile:
    """Return the analytic profile: deterministic, and the same on every machine."""
    return Profile("flops", "flops", batch, tuple(_layer_cost(layer, batch) for layer in graph.layers))


def _layer_cost(layer: Layer, batch: int) -> LayerCost:
    work = 6 * layer.macs * batch
    kernels = layer.operands[0].num_channels // layer.groups if layer.sums_channels else 1
    return LayerCost(layer.name, analytic(work / layer.num_filters), analytic(work / (layer.num_filters * kernels)))
