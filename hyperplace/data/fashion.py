"""Fashion-MNIST from four IDX files: ten kinds of clothes, 28x28 grey, 60,000 to train and 10,000 to test."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hyperplace.errors import FileError, UsageError
from hyperplace.files.idx import idx_path, read_idx
from hyperplace.values.images import Images

DEBIAN = Path("/usr/share/datasets/fashion-mnist")
PREFIX_OF = {"train": "train", "test": "t10k"}
NUM_CLASSES = 10
MEAN, STD = 0.2860, 0.3530  # of the training pixels, 0 .. 1
REMEDY = (
    "install Debian's package (apt-get install dataset-fashion-mnist) or give a folder of the four IDX files "
    "({train,t10k}-{images-idx3,labels-idx1}-ubyte, plain or .gz)"
)


def fashion_mnist(folder: Path | None, split: str) -> Images:
    """Return the images of a split, "train" or "test", pixels 0 .. 1; without a folder, those of Debian's package."""
    if split not in PREFIX_OF:
        raise UsageError(f"split {split!r} is unknown; choose one of {', '.join(PREFIX_OF)}")
    where = DEBIAN if folder is None else folder
    pixels = _read(where, f"{PREFIX_OF[split]}-images-idx3-ubyte", 3)
    labels = _read(where, f"{PREFIX_OF[split]}-labels-idx1-ubyte", 1)
    if len(pixels) != len(labels) or labels.max() >= NUM_CLASSES:
        found = f"{len(pixels):,} images with {len(labels):,} labels up to {labels.max()}"
        raise FileError(f"{where}: {found} are not Fashion-MNIST's {split} split; {REMEDY}")
    x = pixels[:, None].astype(np.float32)
    x /= 255
    return Images(x, labels.astype(np.int64), NUM_CLASSES, MEAN, STD)


def _read(folder: Path, name: str, num_dimensions: int) -> NDArray[Any]:
    path = idx_path(folder, name)
    if path is None:
        raise FileError(f"there is no {name} in {folder}; {REMEDY}")
    array = read_idx(path)
    if array.ndim != num_dimensions or array.dtype != np.uint8:
        raise FileError(f"{path}: {array.ndim} dimensions of {array.dtype} are not {name}; {REMEDY}")
    return array
