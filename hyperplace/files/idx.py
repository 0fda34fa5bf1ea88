"""IDX files, plain or gzipped: the arrays of MNIST and its kin.

A header (two zero bytes, the element type, the number of dimensions, then each as a big-endian 32-bit number), then
the elements. The header of a file from elsewhere may promise anything: memory is taken for what is really there.
"""

import gzip
import math
import os
import struct
import zlib
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import numpy as np
from numpy.typing import NDArray

from hyperplace.errors import FileError
from hyperplace.files.write import Pathlike

TYPE_OF = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
MOST_DIMENSIONS = 8
GZIP_MAGIC = b"\x1f\x8b"
MOST_GZIP_RATIO = 1032  # deflate cannot do better
CHUNK_BYTES = 2**20


class _Stream(Protocol):
    def read(self, size: int, /) -> bytes: ...


def read_idx(path: Pathlike) -> NDArray[Any]:
    """Return the array of an IDX file, of the type and shape it has there."""
    try:
        with open(path, "rb") as file:
            return _read(file, os.fstat(file.fileno()).st_size)
    except FileError as fault:
        raise FileError(f"{path}: {fault}") from None
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise FileError(f"{path}: its compressed data is broken or cut short: {error}; get it again") from error
    except OSError as error:
        raise FileError(f"cannot read {path}: {(error.strerror or str(error)).lower()}; check the path") from error


def idx_path(folder: Pathlike, name: str) -> Path | None:
    """Return the file of this name in a folder, gzipped or plain, if there is one."""
    candidates = (Path(folder) / f"{name}.gz", Path(folder) / name)
    return next((path for path in candidates if path.is_file()), None)


def _read(file: BinaryIO, num_file_bytes: int) -> NDArray[Any]:
    is_gzip = file.read(2) == GZIP_MAGIC
    file.seek(0)
    if is_gzip:
        with gzip.GzipFile(fileobj=file) as stream:
            return _array(stream, MOST_GZIP_RATIO * num_file_bytes)
    return _array(file, num_file_bytes)


def _array(stream: _Stream, most_bytes: int) -> NDArray[Any]:
    """Return the array in a stream that cannot hold more than `most_bytes`."""
    dtype, shape = _header(stream)
    num_bytes = math.prod(shape) * dtype.itemsize
    shown = " x ".join(str(size) for size in shape)
    if num_bytes > most_bytes:
        raise FileError(f"its header promises {shown} elements, more than such a file can hold; get it again")
    data = _body(stream, num_bytes)
    if len(data) < num_bytes:
        raise FileError(f"it ends after {len(data):,} of the {num_bytes:,} bytes of {shown} elements; get it again")
    if len(data) > num_bytes:
        raise FileError(f"there is more in it than the {shown} elements its header promises; get it again")
    return np.frombuffer(data, dtype).reshape(shape).astype(dtype.newbyteorder("="), copy=False)


def _header(stream: _Stream) -> tuple[np.dtype[Any], tuple[int, ...]]:
    magic = stream.read(4)
    if len(magic) < 4 or magic[:2] != b"\0\0" or magic[2] not in TYPE_OF or not 1 <= magic[3] <= MOST_DIMENSIONS:
        raise FileError(f"not an IDX file: it begins with {magic.hex(' ') or 'nothing'}; is it another kind of file?")
    sizes = stream.read(4 * magic[3])
    if len(sizes) < 4 * magic[3]:
        raise FileError("it ends within its header; get it again")
    shape = struct.unpack(f">{magic[3]}I", sizes)
    if 0 in shape:
        raise FileError(f"its header promises {' x '.join(str(size) for size in shape)} elements: none; get it again")
    return np.dtype(TYPE_OF[magic[2]]), shape


def _body(stream: _Stream, num_bytes: int) -> bytearray:
    """Return the rest of the stream, or its beginning if that is already more than `num_bytes`."""
    data = bytearray()
    while len(data) <= num_bytes and (chunk := stream.read(min(CHUNK_BYTES, num_bytes + 1 - len(data)))):
        data += chunk
    return data
