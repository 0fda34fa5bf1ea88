"""What waits in the system is seen, whoever's connection it is, and nobody's is closed by looking."""

import socket
import time

import pytest

from hyperplace.runtime.hosts import backlog
from hyperplace.runtime.hosts.backlog import Backlog


@pytest.fixture
def ends(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as out:
        came, _ = server.accept()
        with came:
            assert {out.fileno(), came.fileno()} <= set(backlog._descriptors())
            # Alone: what other tests have left open is none of this one's business.
            monkeypatch.setattr(backlog, "_descriptors", lambda: [out.fileno(), came.fileno()])
            yield out, came


@pytest.fixture
def other():
    with socket.socket() as one:
        yield one


def fill(out: socket.socket) -> int:
    """Send until nothing more is taken; return how many bytes were."""
    out.setblocking(False)
    sent = 0
    while True:
        try:
            sent += out.send(b"x" * 65536)
        except BlockingIOError:
            return sent


def test_what_nobody_reads_waits_until_it_is_read(ends, other):
    out, came = ends
    assert Backlog(other).is_empty
    sent = fill(out)
    seen = Backlog(other)
    assert not seen.is_empty
    assert Backlog(out).is_empty, "its own does not count"
    while sent:
        sent -= len(came.recv(65536))
    end = time.monotonic() + 10
    while not seen.is_empty and time.monotonic() < end:
        time.sleep(0.01)
    assert seen.is_empty
    out.setblocking(True)
    out.sendall(b"still open")
    assert came.recv(65536) == b"still open"


def test_a_connection_that_is_gone_has_nothing_to_send(ends, other):
    out, came = ends
    fill(out)
    seen = Backlog(other)
    came.close()
    out.close()
    assert seen.is_empty


def test_where_nothing_is_listed_nothing_waits(ends, other, monkeypatch):
    fill(ends[0])
    monkeypatch.setattr(backlog, "_descriptors", list)
    assert Backlog(other).is_empty
