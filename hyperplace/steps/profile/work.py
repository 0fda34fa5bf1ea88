"""From the seconds of a layer to its work per filter, per kernel and per reduced filter."""

from hyperplace.steps.profile.slices import half_channels, half_filters, whole_slice
from hyperplace.values.graph import Layer
from hyperplace.values.profile import LayerCost, Timing, Work


def measured_cost(layer: Layer, timing: Timing, batch: int, note: str = "") -> LayerCost:
    """Return the work of the layer for one mini-batch, in microseconds.

    A plan does not know yet how a layer will be cut, so a filter costs the mean of what it costs in the whole layer
    and in half of it, and a kernel the mean over the whole, half the filters and half the channels; each pass has its
    own mean. The tail and the update are shared out evenly. Passes grow with the batch, the update does not.
    """
    scale, filters, anchor = batch / timing.rows * 1e6, layer.num_filters, timing.anchor_s
    tail, update = timing.tail_s * scale / filters, Work(update=timing.update_s * 1e6)
    if not layer.sums_channels:
        return LayerCost(layer.name, (anchor * scale + update) / filters + tail, Work(), tail, timing, note)
    whole, fewer_filters, fewer_channels = whole_slice(layer), half_filters(layer), half_channels(layer)
    per_filter, per_kernel = [anchor / filters], [anchor / whole.kernels]
    if fewer_filters and timing.half_filters_s.total:
        per_filter.append(timing.half_filters_s / fewer_filters.filters)
        per_kernel.append(timing.half_filters_s / fewer_filters.kernels)
    if fewer_channels and timing.half_channels_s.total:
        per_kernel.append(timing.half_channels_s / fewer_channels.kernels)
    one_filter = _mean(per_filter) * scale + tail + update / filters
    one_kernel = _mean(per_kernel) * scale + update / whole.kernels
    return LayerCost(layer.name, one_filter, one_kernel, tail, timing, note)


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
