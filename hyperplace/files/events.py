"""Event files as TensorBoard reads them: scalars over steps, one record after the other.

A record is its length, a checksum of that, an Event message of protobuf, and a checksum of that. Of the message only a
few fields are needed, so they are written here by hand instead of by two hundred megabytes of another package:

    Event    1 wall_time: double   2 step: varint   3 file_version: text   5 summary: Summary
    Summary  1 value: Value, any number of them
    Value    1 tag: text   2 simple_value: float
"""

import math
import os
import socket
import struct
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

from hyperplace.errors import FileError
from hyperplace.files.write import shown

VERSION = "brain.Event:2"
VARINT, DOUBLE, BYTES, FLOAT = 0, 1, 2, 5  # how protobuf calls what follows a field's number
POLYNOMIAL = 0x82F63B78  # of CRC-32C, lowest bit first


def _table() -> tuple[int, ...]:
    found = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (POLYNOMIAL if byte & 1 else 0)
        found.append(byte)
    return tuple(found)


TABLE = _table()


def crc32c(data: bytes) -> int:
    """Return the checksum of Castagnoli's polynomial."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = TABLE[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


def record(data: bytes) -> bytes:
    """Return data as it stands in a file of records."""
    length = struct.pack("<Q", len(data))
    return length + _masked(length) + data + _masked(data)


def _masked(data: bytes) -> bytes:
    """Return the checksum turned and moved, so that one of data that has checksums in it is none by chance."""
    crc = crc32c(data)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def event(wall_time: float, step: int = 0, scalars: Mapping[str, float] | None = None) -> bytes:
    """Return an event with scalars by their tags; without any, the one that a file begins with."""
    head = _key(1, DOUBLE) + struct.pack("<d", wall_time) + _key(2, VARINT) + _varint(step)
    if scalars is None:
        return head + _text(3, VERSION.encode())
    values = (_text(1, tag.encode()) + _key(2, FLOAT) + _float(value) for tag, value in scalars.items())
    return head + _text(5, b"".join(_text(1, value) for value in values))


def _float(value: float) -> bytes:
    try:
        return struct.pack("<f", value)
    except OverflowError:  # beyond what four bytes hold: a loss on its way to infinity
        return struct.pack("<f", math.copysign(math.inf, value))


def _text(field: int, data: bytes) -> bytes:
    return _key(field, BYTES) + _varint(len(data)) + data


def _key(field: int, kind: int) -> bytes:
    return _varint(field << 3 | kind)


def _varint(number: int) -> bytes:
    """Return a number by sevens of bits, the lowest first."""
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*found, number])


class EventFile:
    """A new file of events in a folder; what others have written there stays, and TensorBoard reads all together."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / f"events.out.tfevents.{time.time_ns()}.{socket.gethostname()}.{os.getpid()}"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._file = self.path.open("xb")
        except OSError as fault:
            raise _refused(folder, fault) from None
        self._write(record(event(time.time())))

    def add(self, scalars_of: Mapping[int, Mapping[str, float]]) -> None:
        """Write the scalars of some steps, and let whoever watches the file see them."""
        now = time.time()
        self._write(b"".join(record(event(now, step, scalars)) for step, scalars in scalars_of.items() if scalars))

    def _write(self, data: bytes) -> None:
        try:
            self._file.write(data)
            self._file.flush()
        except OSError as fault:
            raise _refused(self.path, fault) from None

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> "EventFile":
        return self

    def __exit__(self, kind: type[BaseException] | None, fault: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def _refused(path: Path, fault: OSError) -> FileError:
    return FileError(f"cannot write to {shown(path)}: {(fault.strerror or str(fault)).lower()}; choose another folder")
