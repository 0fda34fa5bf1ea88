"""Event files: checksums as published, and every scalar read again by a decoder that shares nothing with the writer."""

import math
import struct

import pytest

from hyperplace.errors import FileError
from hyperplace.files.events import EventFile, crc32c


@pytest.mark.parametrize(
    ("data", "wanted"),
    [  # the test vectors of RFC 3720, B.4
        (bytes(32), 0x8A9136AA),
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
        (bytes(range(31, -1, -1)), 0x113FDB5C),
        (b"123456789", 0xE3069283),
    ],
)
def test_checksums_are_those_of_the_standard(data, wanted):
    assert crc32c(data) == wanted


def bitwise_masked(data):
    """Return a record's checksum by its definition, bit by bit."""
    crc = 0xFFFFFFFF
    for byte in data:
        for place in range(8):
            is_odd = (crc ^ byte >> place) & 1
            crc = crc >> 1 ^ (0x82F63B78 if is_odd else 0)
    crc ^= 0xFFFFFFFF
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) % 2**32


def records(data):
    while data:
        (length,), (first,) = struct.unpack("<Q", data[:8]), struct.unpack("<I", data[8:12])
        body, (second,) = data[12 : 12 + length], struct.unpack("<I", data[12 + length : 16 + length])
        assert (first, second) == (bitwise_masked(data[:8]), bitwise_masked(body))
        yield body
        data = data[16 + length :]


def fields(message):
    """Yield the fields of a protobuf message: numbers, and what they hold."""
    place = 0

    def number():
        nonlocal place
        found = shift = 0
        while True:
            byte = message[place]
            place += 1
            found |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return found

    while place < len(message):
        key = number()
        if key & 7 == 0:
            yield key >> 3, number()
            continue
        size = {1: 8, 5: 4}.get(key & 7) or number()
        yield key >> 3, message[place : place + size]
        place += size


def scalars(path):
    """Return the scalars of a file by step and tag."""
    first, *rest = (list(fields(body)) for body in records(path.read_bytes()))
    assert dict(first)[3] == b"brain.Event:2"
    found = {}
    for one in rest:
        values = [dict(fields(value)) for _, value in fields(dict(one)[5])]
        assert struct.unpack("<d", dict(one)[1])[0] > 1.7e9
        for value in values:
            found[dict(one)[2], value[1].decode()] = struct.unpack("<f", value[2])[0]
    return found


def test_scalars_come_back(tmp_path):
    wanted = {0: {"a": 1.5}, 127: {"a": -2.0, "b/part 3": 0.25}, 128: {}, 2**40: {"ä" * 200: 1e-30}, 5: {"a": 1e300}}
    with EventFile(tmp_path / "new/folder") as file:
        file.add({1: {"loss": math.nan}})
        file.add(wanted)
    assert "tfevents" in file.path.name
    found = scalars(file.path)
    assert math.isnan(found.pop((1, "loss")))
    assert found.pop((5, "a")) == math.inf
    expected = {(step, tag): value for step, some in wanted.items() for tag, value in some.items() if step != 5}
    assert found == pytest.approx(expected, rel=1e-6)


def test_what_cannot_be_written_is_said(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(FileError, match="cannot write to"):
        EventFile(tmp_path / "file" / "folder")


def test_a_run_writes_every_loss_at_its_mini_batch(tmp_path, monkeypatch, capsys):
    from hyperplace.cli.watching import Watching, WatchWish, scalars_of
    from hyperplace.values.reading import Reading

    one = Reading(2, 12, 3.0, (1.0, 0.5), 64.0, (0.5, None), (1.0, 2.0), 2**20, 0.75)
    assert scalars_of(one) == {
        11: {"train/loss": 1.0},
        12: {
            "train/loss": 0.5,
            "train/images per second": 64.0,
            "train/moved MiB": 1.0,
            "test/accuracy": 0.75,
            "busy share/part 0": 0.5,
            "staleness/part 0": 1.0,
            "staleness/part 1": 2.0,
        },
    }
    watch = Watching(WatchWish(tensorboard=tmp_path))
    watch.begin("a run", 2)
    watch.on_reading(one)

    def full(self, data):
        raise FileError("cannot write: no space left")

    with monkeypatch.context() as patched:
        patched.setattr(EventFile, "_write", full)
        watch.on_reading(one)
    watch.on_reading(one)
    watch.close()
    assert capsys.readouterr().err.count("no more is written for TensorBoard: cannot write: no space left") == 1
    (path,) = tmp_path.iterdir()
    assert scalars(path)[11, "train/loss"] == 1.0
