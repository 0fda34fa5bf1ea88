"""Images that exist are valid, and cannot be changed."""

import numpy as np
import pytest

from hyperplace.errors import HyperplaceError
from hyperplace.values.images import Images

X, Y = np.zeros((2, 1, 3, 4), np.float32), np.array([0, 1])


def test_images_say_what_they_are():
    images = Images(X, Y, 10)
    assert repr(images) == "Images(2 of 1x3x4, 10 classes)"
    assert (len(images), images.shape) == (2, (1, 3, 4))
    assert (images.x.dtype, images.y.dtype) == (np.float32, np.int64)
    assert images == Images(X.copy(), Y.copy(), 10)
    assert images != Images(X, Y[::-1], 10)


def test_images_cannot_be_changed():
    with pytest.raises(ValueError, match="read-only"):
        Images(X, Y, 2).x[0] = 1


@pytest.mark.parametrize(
    ("x", "y", "others", "fault"),
    [
        (X[0], Y, {}, "pixels are 1x3x4, not rows x channels x height x width"),
        (X[:, :0], Y, {}, "pixels are 2x0x3x4, not rows"),
        (X, Y[:1], {}, "there are 1 labels for 2 images"),
        (X, Y + 9, {}, r"label 10 is outside 0\.\.9"),
        (X, Y - 1, {}, r"label -1 is outside 0\.\.9"),
        (X + np.nan, Y, {}, "a pixel is not finite"),
        (X, Y, {"std": 0.0}, r"mean 0\.0 and std 0\.0 cannot normalise anything"),
        (X[0], Y + 9, {}, r"pixels are 1x3x4.*; .*label 10 is outside"),
    ],
)
def test_what_is_wrong_is_said(x, y, others, fault):
    with pytest.raises(HyperplaceError, match=f"^not labelled images: .*{fault}"):
        Images(x, y, 10, **others)
