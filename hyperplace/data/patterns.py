"""Made-up images that can be learnt: every class has its pattern of squares, every image that pattern and noise."""

import numpy as np

from hyperplace.errors import UsageError
from hyperplace.values.images import Images, Pixels, Shape

SQUARES = 4  # to a side
NOISE = 0.25
MEAN, STD = 0.5, 0.36


def synthetic(num_rows: int, shape: Shape, num_classes: int, seed: int) -> Images:
    """Return images of this shape; the same arguments give the same ones.

    The classes' patterns depend on the shape and the number of classes only, so another seed gives a test set for the
    same classes.
    """
    if min(num_rows, num_classes, *shape) < 1 or seed < 0:
        raise UsageError(
            f"{num_rows} images of {'x'.join(str(size) for size in shape)} in {num_classes} classes by seed {seed} "
            "cannot be made; give sizes of 1 or more and a seed of 0 or more"
        )
    random = np.random.default_rng(seed)
    labels = random.integers(num_classes, size=num_rows)
    x = random.standard_normal((num_rows, *shape), dtype=np.float32)
    x *= NOISE
    x += _patterns(shape, num_classes)[labels]
    return Images(x, labels, num_classes, MEAN, STD)


def _patterns(shape: Shape, num_classes: int) -> Pixels:
    """Return an image per class: squares that are dark, 0.25, or light, 0.75."""
    channels, height, width = shape
    squares = np.random.default_rng(0).choice([0.25, 0.75], (num_classes, channels, SQUARES, SQUARES))
    rows, columns = np.arange(height) * SQUARES // height, np.arange(width) * SQUARES // width
    return squares[:, :, rows[:, None], columns].astype(np.float32)
