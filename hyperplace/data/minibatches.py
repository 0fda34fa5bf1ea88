"""Images as mini-batches of tensors, in the shape a model wants."""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from hyperplace.errors import UsageError
from hyperplace.values.arrays import Ints
from hyperplace.values.images import Images, Shape
from hyperplace.values.ranges import Range

if TYPE_CHECKING:
    from torch import Tensor

MOST_PADDING = 1.25  # a side that grows by more than this is stretched: borders would be most of the work


def batches(
    images: Images,
    batch: int,
    *,
    seed: int,
    epoch: int,
    shape: Shape | None = None,
    drop_last: bool = False,
    fed: Callable[[int], Sequence[Range]] = lambda num_rows: ((0, num_rows),),
) -> "Iterator[tuple[Tensor, Tensor]]":
    """Yield an epoch's mini-batches (x, y), normalised, in an order that depends on seed and epoch only.

    Of a mini-batch's images only the rows are made that are `fed` to the model here; the others are left undefined.

    Images of another shape (channels, height, width) than asked for are padded with background up to a quarter more,
    scaled otherwise; one channel is repeated. The last mini-batch may be smaller, or is dropped.
    """
    shape = shape or images.shape
    _check(batch, seed, epoch)
    _check_channels(images.shape[0], shape)
    order = np.random.default_rng((seed, epoch)).permutation(len(images))
    stop = len(order) // batch * batch if drop_last else len(order)
    if stop == 0:
        raise UsageError(f"{len(images)} images give no full mini-batch of {batch}; give a smaller batch")
    chosen = (order[first : first + batch] for first in range(0, stop, batch))
    return (_tensors(images, rows, shape, fed(len(rows))) for rows in chosen)


def _check(batch: int, seed: int, epoch: int) -> None:
    if batch < 1:
        raise UsageError(f"batch {batch} has no rows; give --batch 1 or more")
    if min(seed, epoch) < 0:
        raise UsageError(f"seed {seed} and epoch {epoch} must not be negative")


def _check_channels(channels: int, shape: Shape) -> None:
    if channels not in (1, shape[0]):
        raise UsageError(f"images of {channels} channels cannot feed a model that takes {shape[0]}; choose other data")


def _tensors(images: Images, rows: Ints, shape: Shape, spans: Sequence[Range]) -> "tuple[Tensor, Tensor]":
    import torch

    x = torch.empty(len(rows), *shape)
    for start, stop in spans:
        pixels = torch.from_numpy(images.x[rows[start:stop]])
        x[start:stop] = _fitted(pixels, shape[1], shape[2]).sub(images.mean).div_(images.std)
    return x, torch.from_numpy(images.y[rows])


def _fitted(x: "Tensor", height: int, width: int) -> "Tensor":
    """Return the images padded or scaled to this size."""
    from torch.nn import functional

    ratios = (height / x.shape[2], width / x.shape[3])
    if all(1 <= ratio <= MOST_PADDING for ratio in ratios):
        top, left = (height - x.shape[2]) // 2, (width - x.shape[3]) // 2
        return functional.pad(x, (left, width - x.shape[3] - left, top, height - x.shape[2] - top))
    return functional.interpolate(x, (height, width), mode="bilinear", antialias=True)
