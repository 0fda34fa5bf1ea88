"""IDX files read back what was written in them, and a broken one costs neither memory nor a traceback."""

import gzip
import struct
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hyperplace.errors import FileError
from hyperplace.files.idx import TYPE_OF, idx_path, read_idx


def idx_bytes(array, code):
    """Return an array as an IDX file, by the description at yann.lecun.com/exdb/mnist."""
    shape = struct.pack(f">{array.ndim}I", *array.shape)
    return bytes([0, 0, code, array.ndim]) + shape + array.astype(TYPE_OF[code]).tobytes()


def zipped(data):
    return gzip.compress(data, 1, mtime=0)  # the time would give each test worker other parameters


SMALL = np.arange(24).reshape(2, 3, 4)
PLAIN = idx_bytes(SMALL, 0x08)


@settings(max_examples=25, deadline=None)  # it waits for a disk
@given(st.sampled_from(sorted(TYPE_OF)), st.lists(st.integers(1, 5), min_size=1, max_size=4), st.booleans())
def test_reads_what_was_written(tmp_path_factory, code, shape, is_gzip):
    array = np.arange(np.prod(shape)).reshape(shape) % 120
    path = tmp_path_factory.mktemp("idx") / "a"
    path.write_bytes(zipped(idx_bytes(array, code)) if is_gzip else idx_bytes(array, code))
    read = read_idx(path)
    assert np.array_equal(read, array)
    assert read.dtype == np.dtype(TYPE_OF[code]).newbyteorder("=")


@pytest.mark.parametrize("length", range(len(PLAIN)))
def test_every_truncated_file_is_refused(tmp_path, length):
    for name, data in (("plain", PLAIN[:length]), ("gzip", zipped(PLAIN[:length]))):
        (tmp_path / name).write_bytes(data)
        with pytest.raises(FileError, match=rf"^{tmp_path / name}: .*(get it again|is it another kind of file\?)$"):
            read_idx(tmp_path / name)


@pytest.mark.parametrize("length", range(2, len(zipped(PLAIN)), 3))
def test_every_truncated_gzip_file_is_refused(tmp_path, length):
    (tmp_path / "a.gz").write_bytes(zipped(PLAIN)[:length])
    with pytest.raises(FileError, match=r"compressed data is broken or cut short: .*; get it again$"):
        read_idx(tmp_path / "a.gz")


def huge(*shape):
    return bytes([0, 0, 8, len(shape)]) + struct.pack(f">{len(shape)}I", *shape)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "not an IDX file: it begins with nothing; is it another kind of file"),
        (b"\x89PNG\r\n", "not an IDX file: it begins with 89 50 4e 47"),
        (bytes([0, 0, 7, 1, 0, 0, 0, 1, 0]), "not an IDX file: it begins with 00 00 07 01"),
        (bytes([0, 0, 8, 0]), "not an IDX file: it begins with 00 00 08 00"),
        (bytes([0, 0, 8, 200]) + bytes(800), "not an IDX file: it begins with 00 00 08 c8"),
        (bytes([0, 0, 8, 2, 0, 0]), "it ends within its header; get it again"),
        (PLAIN + b"\0", "there is more in it than the 2 x 3 x 4 elements its header promises"),
        (PLAIN[:-1], "it ends after 23 of the 24 bytes of 2 x 3 x 4 elements; get it again"),
        (huge(2**31, 2**31), "promises 2147483648 x 2147483648 elements, more than such a file can hold"),
        (huge(0, 2**32 - 1), "promises 0 x 4294967295 elements: none"),
        (zipped(huge(2**32 - 1)), "promises 4294967295 elements, more than such a file can hold"),
        (zipped(PLAIN)[:-8] + bytes(8), "compressed data is broken or cut short: CRC check failed"),
        (zipped(PLAIN) + b"more", "compressed data is broken or cut short: Not a gzipped file"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_wrong_is_said(tmp_path, data, message):
    path = tmp_path / "a"
    path.write_bytes(data)
    with pytest.raises(FileError) as caught:
        read_idx(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "data",
    [
        huge(10**6, 10**6),
        zipped(huge(60_000, 28)),  # within what gzip could hold, but not there
        zipped(huge(4) + bytes(2**25)),  # small outside, large inside
    ],
    ids=["plain", "gzip", "bomb"],
)
def test_a_broken_file_takes_no_memory(tmp_path, data):
    (tmp_path / "a").write_bytes(data)
    tracemalloc.start()
    try:
        with pytest.raises(FileError):
            read_idx(tmp_path / "a")
        assert tracemalloc.get_traced_memory()[1] < 2**22
    finally:
        tracemalloc.stop()


def test_a_path_that_cannot_be_read(tmp_path):
    with pytest.raises(FileError, match=rf"^cannot read {tmp_path}/no: no such file or directory; check the path$"):
        read_idx(tmp_path / "no")
    with pytest.raises(FileError, match=r"is a directory; check the path$"):
        read_idx(tmp_path)


def test_a_file_is_found_gzipped_or_plain(tmp_path):
    assert idx_path(tmp_path, "a") is None
    (tmp_path / "a").write_bytes(PLAIN)
    assert idx_path(tmp_path, "a") == tmp_path / "a"
    (tmp_path / "a.gz").write_bytes(zipped(PLAIN))
    assert idx_path(tmp_path, "a") == tmp_path / "a.gz"
