"""Where the channels of a value come from: the arithmetic of flatten, concat, slice and shuffle.

A value of the captured program has its batch in dimension 0 and its channels in dimension 1. A view knows for
each channel the layer and filter that made it, so operations that only move channels about need no layer.
"""

from dataclasses import dataclass, replace
from math import prod

import numpy as np

from hyperplace.values.graph import Source


class Unsplittable(Exception):
    """No channel rule fits a call; the message is the reason the report gives for placing it whole."""


@dataclass(frozen=True)
class View:
    """A value: its shape, the sources of its channels, and the layer whose untouched output it is, if any.

    Between the two reshapes of a channel shuffle the channels fill dimensions 1 .. `channel_dims`; `order` then
    lists, in row-major order, which channel of `sources` stands where.
    """

    shape: tuple[int, ...]
    sources: tuple[Source, ...]
    layer: str | None = None
    channel_dims: int = 1
    order: tuple[int, ...] = ()
    value: str = ""  # its name in the captured program
    has_rows: bool = True  # false where dimension 0 is not the batch: then nothing but a whole layer can read it

    @property
    def num_channels(self) -> int:
        return sum(source.num_channels for source in self.sources)


def concat(views: list[View], shape: tuple[int, ...]) -> View:
    """Return the views side by side along channels."""
    sources = [source for view in views for source in view.sources]
    return View(shape, _joined(sources))


def cut(view: View, start: int, stop: int, shape: tuple[int, ...]) -> View:
    """Return channels start..stop of the view."""
    pieces, first = [], 0
    for source in view.sources:
        low, high = max(start, first) - first, min(stop, first + source.num_channels) - first
        if low < high:
            if low % source.width or high % source.width:
                raise Unsplittable("it cuts through the features of one flattened filter")
            begin = source.start + low // source.width
            pieces.append(replace(source, start=begin, stop=source.start + high // source.width))
        first += source.num_channels
    return View(shape, tuple(pieces))


def reshape(view: View, shape: tuple[int, ...]) -> View:
    """Return the view under another shape, where every new channel still comes from one filter."""
    if len(shape) < 2 or shape[0] != view.shape[0]:
        raise Unsplittable("its reshape mixes the batch with other dimensions")
    if view.channel_dims > 1:
        return _unshuffled(view, shape)
    old, new = view.shape[1], shape[1]
    if new % old == 0 and prod(view.shape[2:]) % (new // old) == 0:
        return View(shape, tuple(replace(s, width=s.width * (new // old)) for s in view.sources))
    if old % new == 0 and all(source.width % (old // new) == 0 for source in view.sources):
        return View(shape, tuple(replace(s, width=s.width // (old // new)) for s in view.sources))
    return _shuffled(view, shape)


def _shuffled(view: View, shape: tuple[int, ...]) -> View:
    """Split dimension 1 into several, as the first half of a channel shuffle does."""
    for dims in range(2, len(shape)):
        if prod(shape[1 : dims + 1]) == view.shape[1] and shape[dims + 1 :] == view.shape[2:]:
            return View(shape, view.sources, channel_dims=dims, order=tuple(range(view.shape[1])))
    raise Unsplittable("its reshape mixes channels with other dimensions")


def _unshuffled(view: View, shape: tuple[int, ...]) -> View:
    if shape[1] != len(view.order) or shape[2:] != view.shape[view.channel_dims + 1 :]:
        raise Unsplittable("its reshape mixes shuffled channels with other dimensions")
    return View(shape, _taken(view.sources, view.order))


def permute(view: View, dims: tuple[int, ...], shape: tuple[int, ...]) -> View:
    """Return the view with its channel dimensions in another order; only between the reshapes of a shuffle."""
    inner = dims[1 : view.channel_dims + 1]
    moved = dims[0] != 0 or sorted(inner) != list(range(1, view.channel_dims + 1))
    if moved or list(dims[view.channel_dims + 1 :]) != list(range(view.channel_dims + 1, len(dims))):
        raise Unsplittable("it moves channels to another dimension")
    order = np.array(view.order).reshape(view.shape[1 : view.channel_dims + 1])
    return replace(view, shape=shape, order=tuple(order.transpose([d - 1 for d in inner]).ravel().tolist()), layer=None)


def _taken(sources: tuple[Source, ...], order: tuple[int, ...]) -> tuple[Source, ...]:
    """Return the sources of the given channels, one by one, with neighbours joined again."""
    if any(source.width > 1 for source in sources):
        raise Unsplittable("it shuffles the features of flattened filters")
    singles = [
        Source(source.layer, filter_, filter_ + 1) for source in sources for filter_ in range(source.start, source.stop)
    ]
    return _joined([singles[channel] for channel in order])


def _joined(sources: list[Source]) -> tuple[Source, ...]:
    joined: list[Source] = []
    for source in sources:
        last = joined[-1] if joined else None
        if last and last.stop == source.start and last == replace(source, start=last.start, stop=last.stop):
            joined[-1] = replace(last, stop=source.stop)
        else:
            joined.append(source)
    return tuple(joined)
