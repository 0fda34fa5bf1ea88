"""The slices of a layer that are timed to learn what a share of it costs."""

from dataclasses import dataclass

from hyperplace.values.channels import Groups, kernel_axes
from hyperplace.values.graph import Layer


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
