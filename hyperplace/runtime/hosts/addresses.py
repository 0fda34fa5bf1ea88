"""By which addresses processes reach each other: the one that gloo uses too, where it was told an interface."""

import os
import socket
import struct
from contextlib import suppress

INTERFACE, MASTER = "GLOO_SOCKET_IFNAME", "MASTER_ADDR"
SIOCGIFADDR = 0x8915  # Linux: the IPv4 address of an interface


def own_address() -> str:
    """Return the address by which the others reach this host: of gloo's interface, or on the way to the first one."""
    name = os.environ.get(INTERFACE, "").split(",")[0]
    if name:
        with suppress(OSError, ImportError):
            return _address_of(name)
    master = os.environ.get(MASTER) or socket.gethostname()
    family, _, _, _, where = socket.getaddrinfo(master, 9, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.connect(where)  # which sends nothing
        return str(probe.getsockname()[0])


def _address_of(interface: str) -> str:
    import fcntl

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        found = fcntl.ioctl(one.fileno(), SIOCGIFADDR, struct.pack("256s", interface.encode()[:15]))
    return socket.inet_ntoa(found[20:24])


def family(address: str) -> socket.AddressFamily:
    """Return the kind of socket that reaches an address."""
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def is_local(address: str) -> bool:
    """Say whether an address means this host to whoever has it."""
    return address.startswith("127.") or address == "::1"
