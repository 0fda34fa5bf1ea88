"""What this process has handed to the system to send, and the system has yet to get rid of.

gloo calls a message sent once the system has all of it. The last megabytes of it may then still lie before the card.
"""

import os
import socket
import struct
from contextlib import suppress

NUMBER = struct.Struct("i")


class Backlog:
    """The connections that this process has now, but for one; where the system does not list them, none."""

    def __init__(self, but: socket.socket) -> None:
        own = set(_descriptors()) - {but.fileno()}
        self._connections = [number for number in own if _is_connection(number)]

    @property
    def is_empty(self) -> bool:
        """Whether the other ends have all that was sent to them."""
        return not any(map(_unsent_bytes, self._connections))


def _descriptors() -> list[int]:
    with suppress(OSError):
        return [int(name) for name in os.listdir("/proc/self/fd")]
    return []


def _is_connection(number: int) -> bool:
    with suppress(OSError):
        seen = socket.socket(fileno=number)
        try:
            return seen.type == socket.SOCK_STREAM and bool(seen.getpeername())
        finally:
            seen.detach()  # it is somebody else's
    return False


def _unsent_bytes(number: int) -> int:
    import fcntl
    import termios  # neither is there on Windows, which lists no descriptors

    with suppress(OSError):  # it was closed meanwhile
        (found,) = NUMBER.unpack(fcntl.ioctl(number, termios.TIOCOUTQ, NUMBER.pack(0)))
        return int(found)
    return 0
