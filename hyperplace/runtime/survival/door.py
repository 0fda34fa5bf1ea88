"""Where processes that were not there from the start wait to be let in: spares, and hosts that come back.

Every process of a run that may lose hosts can have a door, a TCP port. A guest knocks at the doors it was told of, in
their order, is told the plans and settings of the run, so that it can prepare, and waits. When there is room for it the
process at whose door it is sends an invitation. If that one is lost meanwhile, the guest knocks again.

What is said is JSON, each text after its length. Nothing of it is executed, and none is longer than plans are.
"""

import json
import select
import socket
import struct
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from hyperplace.errors import NotNeeded, TrainingError, UsageError

LENGTH = struct.Struct(">Q")
MOST_BYTES = 2**28
KNOCK_S = 300.0  # to find a door: the run may just be starting
ANSWER_S = 10.0
AGAIN_S = 0.5
KEPT_ALIVE = (("TCP_KEEPIDLE", 5), ("TCP_KEEPINTVL", 2), ("TCP_KEEPCNT", 3))  # seconds, and how often

Words = dict[str, Any]


class Door:
    """The door of one process, until it is closed."""

    def __init__(self, port: int, welcome: Words) -> None:
        self._welcome = welcome
        self._guests: list[socket.socket] = []
        try:
            self._server = socket.create_server(("", port))
        except OSError as fault:
            raise TrainingError(f"no door can be opened at port {port}: {fault.strerror}; give another") from None
        self.port = self._server.getsockname()[1]
        threading.Thread(target=self._open, name="hyperplace door", daemon=True).start()

    def _open(self) -> None:
        with suppress(OSError):  # it is closed
            while True:
                guest, _ = self._server.accept()
                with suppress(OSError):
                    _keep_alive(guest)
                    guest.settimeout(ANSWER_S)
                    _say(guest, self._welcome)
                    self._guests.append(guest)

    def num_waiting(self) -> int:
        """Return how many guests are at the door; those who have gone are forgotten."""
        for guest in list(self._guests):
            if select.select([guest], [], [], 0)[0]:  # a guest has nothing to say before it is asked
                self._drop(guest)
        return len(self._guests)

    def invite(self, invitation: Words) -> str:
        """Return what the first guest answers to an invitation; nothing where none does."""
        if not self._guests:
            return ""
        guest = self._guests[0]
        try:
            _say(guest, invitation)
            return str(_heard(guest)["address"])
        except (OSError, ValueError, KeyError, TypeError):
            return ""
        finally:
            self._drop(guest)

    def _drop(self, guest: socket.socket) -> None:
        self._guests.remove(guest)
        guest.close()

    def close(self) -> None:
        """Tell all who wait that nobody is needed any more."""
        with suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        for guest in list(self._guests):
            with suppress(OSError):
                _say(guest, {"end": True})
            self._drop(guest)


class Guest:
    """A process at the doors of a run, given as host:port, several with commas."""

    def __init__(self, doors: str) -> None:
        self._doors = _parsed(doors)
        self._socket, self.welcome = self._knocked()

    def _knocked(self) -> tuple[socket.socket, Words]:
        deadline = time.monotonic() + KNOCK_S
        while True:
            for door in self._doors:
                with suppress(OSError, ValueError):
                    one = socket.create_connection(door, ANSWER_S)
                    _keep_alive(one)
                    return one, _heard(one)
            if time.monotonic() > deadline:
                shown = ", ".join(f"{host}:{port}" for host, port in self._doors)
                raise TrainingError(f"nobody opens at {shown} within {KNOCK_S:.0f} s; is the run started with --door?")
            time.sleep(AGAIN_S)

    def invitation(self) -> Words:
        """Wait until there is room in the run, however long; raise NotNeeded at its end."""
        while True:
            self._socket.settimeout(None)
            try:
                words = _heard(self._socket)
            except (OSError, ValueError):  # whoever was at this door is lost
                self._socket.close()
                self._socket, self.welcome = self._knocked()
                continue
            if "end" in words:
                raise NotNeeded("the run has ended without needing this spare")
            return words

    def answer(self, address: str) -> None:
        """Accept the invitation."""
        with suppress(OSError):
            _say(self._socket, {"address": address})

    def close(self) -> None:
        self._socket.close()


def plan_behind(doors: str) -> str:
    """Return the text of the plan of the run that has these doors."""
    guest = Guest(doors)
    guest.close()
    return str(guest.welcome["plans"][0])


def _parsed(doors: str) -> Sequence[tuple[str, int]]:
    found = []
    for door in doors.split(","):
        host, _, port = door.strip().rpartition(":")
        if not (host and port.isdecimal() and 0 < int(port) < 2**16):
            raise UsageError(f"door {door!r} is not a host and a port; give such as 10.0.0.1:29600")
        found.append((host.strip("[]"), int(port)))
    return found


def _keep_alive(one: socket.socket) -> None:
    """Let a connection break in some seconds when the other host is gone without a word."""
    one.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in KEPT_ALIVE:
        if hasattr(socket, name):
            one.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def _say(to: socket.socket, words: Words) -> None:
    text = json.dumps(words).encode()
    to.sendall(LENGTH.pack(len(text)) + text)


def _heard(come: socket.socket) -> Words:
    (length,) = LENGTH.unpack(_read(come, LENGTH.size))
    if length > MOST_BYTES:
        raise ValueError(f"{length} bytes are more than anybody says")
    words = json.loads(_read(come, length))
    if not isinstance(words, dict):
        raise ValueError("these are no words of a run")
    return words


def _read(come: socket.socket, length: int) -> bytes:
    found = bytearray()
    while len(found) < length:
        if not (piece := come.recv(min(2**16, length - len(found)))):
            raise ConnectionResetError
        found += piece
    return bytes(found)
