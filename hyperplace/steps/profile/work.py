"""The work of a layer per filter, per kernel and per reduced filter: from multiply-adds, or from seconds of its slices.

Counted are 3 x 2 x multiply-adds per mini-batch (forward, and two products backward).
"""

from dataclasses import dataclass

from hyperplace.values.channels import Groups, kernel_axes
from hyperplace.values.graph import Graph, Layer
from hyperplace.values.profile import LayerCost, Profile, Timing, Work


def count_flops(graph: Graph, batch: int) -> Profile:
    """Return the analytic profile: deterministic, and the same on every machine."""
    return Profile("flops", "flops", batch, tuple(_layer_cost(layer, batch) for layer in graph.layers))


def _layer_cost(layer: Layer, batch: int) -> LayerCost:
    work = 6 * layer.macs * batch
    kernels = layer.operands[0].num_channels // layer.groups if layer.sums_channels else 1
    return LayerCost(layer.name, analytic(work / layer.num_filters), analytic(work / (layer.num_filters * kernels)))


def measured_cost(layer: Layer, timing: Timing, batch: int, note: str = "") -> LayerCost:
    """Return the work of the layer for one mini-batch, in microseconds.

    A plan does not know yet how a layer will be cut, so a filter costs the mean of what it costs in the whole layer
    and in half of it, and a kernel the mean over the whole, half the filters and half the channels; each pass has its
    own mean. The tail and the update are shared out evenly. Passes grow with the batch, the update does not.
    """
    times, half_rows = grown(timing, batch)
    scale, filters, anchor = 1e6 * times, layer.num_filters, timing.anchor_s
    tail, update = timing.tail_s * scale / filters, Work(update=timing.update_s * 1e6)
    if not layer.sums_channels:
        one_filter = (anchor * scale + update) / filters + tail
        return LayerCost(layer.name, one_filter, Work(), tail, timing, note, half_rows)
    whole, fewer_filters, fewer_channels = whole_slice(layer), half_filters(layer), half_channels(layer)
    per_filter, per_kernel = [anchor / filters], [anchor / whole.kernels]
    if fewer_filters and timing.half_filters_s.total:
        per_filter.append(timing.half_filters_s / fewer_filters.filters)
        per_kernel.append(timing.half_filters_s / fewer_filters.kernels)
    if fewer_channels and timing.half_channels_s.total:
        per_kernel.append(timing.half_channels_s / fewer_channels.kernels)
    one_filter = _mean(per_filter) * scale + tail + update / filters
    one_kernel = _mean(per_kernel) * scale + update / whole.kernels
    return LayerCost(layer.name, one_filter, one_kernel, tail, timing, note, half_rows)


def grown(timing: Timing, batch: int) -> tuple[float, float]:
    """Return how many times as long as the rows that were run a batch takes, and what half of its rows cost of that.

    Of a batch of more rows, seconds are taken to be fixed + rows * each, which two numbers of rows tell: with t for all
    rows that were run and h for half of them, fixed = 2 h - t; nothing where half the rows take half as long.
    """
    rows, fewer = timing.rows, timing.rows // 2
    whole, half = (timing.anchor_s + timing.tail_s).total, timing.half_rows_s.total
    if not whole or not half:
        return batch / rows, 0.5
    if rows == batch:
        return 1.0, half / whole
    fixed = min(max((rows * half - fewer * whole) / (rows - fewer) / whole, 0.0), 1.0)
    times = fixed + (1 - fixed) * batch / rows
    return times, (fixed + (times - fixed) / 2) / times


def _mean(works: list[Work]) -> Work:
    return sum(works, Work()) / len(works)


def estimated_cost(layer: Layer, seconds_per_mac: float, batch: int, reason: str) -> LayerCost:
    """Return the work of a layer that could not be run, from its multiply-adds at the pace of the others."""
    work = layer.macs * batch * seconds_per_mac * 1e6
    kernels = whole_slice(layer).kernels if layer.sums_channels else 0
    note = f"not run ({reason}); estimated from its multiply-adds"
    kernel = analytic(work / kernels) if kernels else Work()
    return LayerCost(layer.name, analytic(work / layer.num_filters), kernel, note=note)


def analytic(work: float) -> Work:
    """Share out work that was counted: one product forward, two backward, of the inputs' and the weights' gradients."""
    backward = work * 2 / 3
    # Exact, as the two are within a factor of two of each other: forward + backward is the same float again.
    return Work(work - backward, backward)


@dataclass(frozen=True)
class Slice:
    """Some filters of a layer over some of its operand's channels."""

    groups: int
    filters: int
    channels: int

    @property
    def kernels(self) -> int:
        """How many pairs of a filter and a channel it reads."""
        return self.filters * (self.channels // self.groups)


def whole_slice(layer: Layer) -> Slice:
    return Slice(layer.groups, layer.num_filters, layer.operands[0].num_channels)


def half_filters(layer: Layer) -> Slice | None:
    """Return half the filters, of a grouped layer half the groups; None where the layer has but one, or no sum."""
    if not layer.sums_channels or layer.num_filters < 2:
        return None
    whole = whole_slice(layer)
    if layer.groups == 1:
        return Slice(1, whole.filters // 2, whole.channels)
    half = layer.groups // 2
    return Slice(half, whole.filters // layer.groups * half, whole.channels // layer.groups * half)


def half_channels(layer: Layer) -> Slice | None:
    """Return all filters over half the channels of each group; None where there is but one, or no sum."""
    if not layer.sums_channels or layer.operands[0].num_channels // layer.groups < 2:
        return None
    whole = whole_slice(layer)
    return Slice(layer.groups, whole.filters, whole.channels // layer.groups // 2 * layer.groups)


def weight_shape(layer: Layer, slice_: Slice, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the weight's shape for a slice of the layer."""
    sides = kernel_axes(layer.kind).shape(Groups(slice_.filters, slice_.channels, slice_.groups))
    return (*sides, *shape[2:])
