"""An epoch has every image once, in an order of its own, in the shape the model wants."""

import subprocess
import sys

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hyperplace.data import Images, batches, synthetic
from hyperplace.errors import UsageError


def numbered(num_rows, shape=(1, 2, 2)):
    """Return images whose pixels are all their number, and so is the label."""
    x = np.broadcast_to(np.arange(num_rows, dtype=np.float32)[:, None, None, None], (num_rows, *shape))
    return Images(x, np.arange(num_rows), num_rows, mean=1.0, std=2.0)


def epoch(images, batch, **others):
    return list(batches(images, batch, **({"seed": 0, "epoch": 0} | others)))


@settings(max_examples=25, deadline=None)  # the first call loads torch
@given(st.integers(1, 20), st.integers(1, 25), st.booleans())
def test_every_image_once_with_its_own_label(num_rows, batch, drop_last):
    if drop_last and batch > num_rows:
        return
    got = epoch(numbered(num_rows), batch, drop_last=drop_last)
    sizes = [len(y) for _, y in got]
    assert all(size == batch for size in (sizes if drop_last else sizes[:-1]))
    labels = torch.cat([y for _, y in got]).tolist()
    assert len(set(labels)) == len(labels) == (num_rows // batch * batch if drop_last else num_rows)
    for x, y in got:
        assert (x.dtype, y.dtype) == (torch.float32, torch.int64)
        assert torch.equal(x[:, 0, 0, 0], (y - 1) / 2)


def test_the_order_depends_on_seed_and_epoch_only():
    def order(batch, **others):
        return torch.cat([y for _, y in epoch(numbered(50), batch, **others)]).tolist()

    assert order(7, seed=3, epoch=4) == order(50, seed=3, epoch=4)
    orders = [order(7, seed=seed, epoch=number) for seed in range(3) for number in range(3)]
    assert len({tuple(labels) for labels in orders}) == 9


@pytest.mark.parametrize(
    "shape", [(1, 28, 28), (3, 28, 28), (1, 32, 32), (3, 32, 30), (1, 64, 64), (3, 14, 14), (1, 7, 40)]
)
def test_any_shape_a_model_wants(shape):
    ((x, _),) = epoch(synthetic(4, (1, 28, 28), 2, 0), 4, shape=shape)
    assert x.shape == (4, *shape)
    assert x.is_contiguous()
    assert torch.equal(x[:, 0], x[:, -1])


def test_a_little_more_is_background_around_the_image():
    images = synthetic(4, (1, 28, 28), 2, 0)
    ((x, _),) = epoch(images, 4)
    ((padded, _),) = epoch(images, 4, shape=(1, 32, 31))
    assert torch.equal(padded[:, :, 2:30, 1:29], x)
    padded[:, :, 2:30, 1:29] = -images.mean / images.std
    assert torch.equal(padded, torch.full_like(padded, -images.mean / images.std))


@pytest.mark.parametrize("side", [14, 56])
def test_much_more_or_less_is_the_image_scaled(side):
    ramp = np.broadcast_to(np.arange(28, dtype=np.float32), (1, 1, 28, 28))
    ((x, _),) = epoch(Images(ramp, np.zeros(1), 1), 1, shape=(1, side, side))
    centres = (np.arange(side) + 0.5) * 28 / side - 0.5
    inner = slice(2, -2)  # the outermost have no neighbour on one side
    assert x[0, 0, side // 2, inner].numpy() == pytest.approx(centres[inner], abs=1e-4)


def test_normalised_pixels_have_mean_0_and_std_1():
    ((x, _),) = epoch(synthetic(500, (1, 16, 16), 10, 0), 500)
    assert x.mean().item() == pytest.approx(0, abs=0.15)
    assert x.std().item() == pytest.approx(1, abs=0.15)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch": 0}, "batch 0 has no rows; give --batch 1 or more"),
        ({"batch": 9, "drop_last": True}, "4 images give no full mini-batch of 9; give a smaller batch"),
        ({"batch": 2, "seed": -1}, "seed -1 and epoch 0 must not be negative"),
        ({"batch": 2, "shape": (1, 2, 2)}, "images of 3 channels cannot feed a model that takes 1"),
    ],
)
def test_what_cannot_work_is_said_at_once(options, message):
    with pytest.raises(UsageError, match=message):
        batches(numbered(4, (3, 2, 2)), **({"seed": 0, "epoch": 0} | options))


def test_importing_the_data_does_not_import_torch():
    code = "import sys, hyperplace.data; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0
