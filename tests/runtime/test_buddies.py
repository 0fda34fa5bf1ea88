"""Copies for a buddy go in pieces: each when the training's messages are gone, or when it is time."""

import socket
import threading
from math import inf

import pytest

from hyperplace.runtime.survival.buddies import PIECE_BYTES, Headway, stream

DATA = bytes(range(256)) * (3 * PIECE_BYTES // 256) + b"the last, shorter piece"


@pytest.fixture
def ends():
    to, came = socket.socketpair()
    with to, came:
        yield to, came


def sent(ends, headway, has_room):
    """Return what arrives."""
    to, came = ends
    found = bytearray()

    def read():
        while len(found) < len(DATA):
            found.extend(came.recv(65536))

    reader = threading.Thread(target=read)
    reader.start()
    stream(to, memoryview(DATA), headway, has_room=has_room)
    reader.join(30)
    return bytes(found)


def test_every_piece_but_the_first_waits_until_there_is_room(ends):
    answers = [False, True, False, False, True, True]

    def has_room():
        return answers.pop(0)

    assert sent(ends, Headway(len(DATA), inf, begin=0.0), has_room) == DATA
    assert answers == [], "nothing was sent before the first piece, so nothing is ahead of its time then"


def test_nobody_is_asked_where_there_is_no_time_to_wait(ends):
    def has_room():
        raise AssertionError("it is late already")

    assert sent(ends, Headway(len(DATA), 0.0), has_room) == DATA


def test_where_there_is_never_room_all_arrives_in_its_time(ends):
    headway = Headway(len(DATA), 0.3)
    assert sent(ends, headway, lambda: False) == DATA
    assert headway.sent == len(DATA)
