"""Fashion-MNIST from a folder of IDX files, from Debian's package, or a message that names both."""

import gzip
import struct

import numpy as np
import pytest

from hyperplace.data import fashion_mnist
from hyperplace.data.fashion import DEBIAN, MEAN, STD
from hyperplace.errors import FileError, UsageError


def write_idx(path, array, code=0x08):
    header = bytes([0, 0, code, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
    data = header + array.tobytes()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)


PIXELS = np.arange(5 * 28 * 28).astype(np.uint8).reshape(5, 28, 28)
LABELS = np.array([9, 0, 3, 3, 1], np.uint8)


@pytest.fixture
def folder(tmp_path):
    write_idx(tmp_path / "train-images-idx3-ubyte.gz", PIXELS)
    write_idx(tmp_path / "train-labels-idx1-ubyte", LABELS)
    return tmp_path


def test_a_folder_of_idx_files(folder):
    images = fashion_mnist(folder, "train")
    assert np.array_equal(np.rint(images.x[:, 0] * 255), PIXELS)
    assert np.array_equal(images.y, LABELS)
    assert (images.shape, images.num_classes) == ((1, 28, 28), 10)
    assert (images.x.min(), images.x.max()) == (0, 1)


@pytest.mark.parametrize("given", [True, False])
def test_where_there_is_nothing_both_ways_to_get_it_are_named(tmp_path, monkeypatch, given):
    monkeypatch.setattr("hyperplace.data.fashion.DEBIAN", tmp_path)
    with pytest.raises(FileError) as caught:
        fashion_mnist(tmp_path if given else None, "test")
    message = str(caught.value)
    assert message.startswith(f"there is no t10k-images-idx3-ubyte in {tmp_path}; ")
    assert "apt-get install dataset-fashion-mnist" in message
    assert "a folder of the four IDX files" in message


def test_an_unknown_split(folder):
    with pytest.raises(UsageError, match="split 'all' is unknown; choose one of train, test"):
        fashion_mnist(folder, "all")


def test_files_that_do_not_belong_together(folder):
    write_idx(folder / "train-labels-idx1-ubyte", LABELS[:3])
    with pytest.raises(FileError, match="5 images with 3 labels up to 9 are not Fashion-MNIST's train split"):
        fashion_mnist(folder, "train")
    write_idx(folder / "train-labels-idx1-ubyte", LABELS + 1)
    with pytest.raises(FileError, match="5 images with 5 labels up to 10 are not"):
        fashion_mnist(folder, "train")
    write_idx(folder / "train-labels-idx1-ubyte", PIXELS)
    with pytest.raises(FileError, match="3 dimensions of uint8 are not train-labels-idx1-ubyte"):
        fashion_mnist(folder, "train")


@pytest.mark.skipif(not DEBIAN.is_dir(), reason="needs Debian's package dataset-fashion-mnist")
def test_debians_package():
    images = fashion_mnist(None, "test")
    assert repr(images) == "Images(10,000 of 1x28x28, 10 classes)"
    assert np.bincount(images.y).tolist() == [1000] * 10
    # The constants are of the training split; the test split's pixels are like them.
    assert (images.x.mean(), images.x.std()) == (pytest.approx(MEAN, abs=2e-3), pytest.approx(STD, abs=2e-3))
