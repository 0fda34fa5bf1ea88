"""Emulated hosts: a network namespace each, joined by a switch, with a card of its own rate and delay.

    host 0: eth0 --- port 0 of the switch (a bridge in a namespace of its own)
    host 1: eth0 --- port 1 ...

Both ends of each pair are limited: eth0's queue is what the host sends, the port's what it receives. Everything lies in
namespaces whose names have this process's number, so that removing them removes all, and a later run knows the remains
of one that was killed. The network outside is not touched.
"""

import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from hyperplace.errors import HyperplaceError, UsageError
from hyperplace.values.cluster import BITS_OF, parse_amount, shown_amount, shown_rate

PREFIX = "hyperplace"
INTERFACE, LOOPBACK = "eth0", "lo"
US_OF = {"us": 1.0, "ms": 1e3, "s": 1e6}
# A token bucket fills between ticks of the kernel: it must hold what is sent meanwhile, and one packet as the kernel
# hands it over, of up to 64 KiB before it is cut.
BURST_S, LEAST_BURST_BYTES = 2e-3, 128 * 1024
QUEUE_S = 0.05
QUIET_S, QUIET_BYTES = 0.1, 2048
NETEM_PACKETS = 1_000_000  # what is delayed must fit in, or it is lost


class NoHosts(HyperplaceError):
    """Hosts cannot be emulated here."""


@dataclass(frozen=True)
class Card:
    """A host's network card: bits per second each way, None for no limit, and the delay of what it sends."""

    bits_per_s: float | None = None
    delay_us: float = 0.0

    @classmethod
    def parse_all(cls, rates: str | None, delay: str | None) -> "tuple[Card, ...]":
        """Return the cards of two options' texts, such as 1gbit,100mbit and 1ms: one for all hosts, or one for each."""
        return tuple(cls.parse(rate, delay) for rate in (rates.split(",") if rates else [None]))

    @classmethod
    def parse(cls, rate: str | None, delay: str | None) -> "Card":
        """Return the card of two options' texts, such as 1gbit and 1ms."""
        bits = None if rate is None else _amount("--rate", rate, BITS_OF, "1gbit")
        if bits is not None and bits < BITS_OF["kbit"]:
            raise UsageError(f"--rate {rate} lets nothing through; give 1kbit or more")
        return cls(bits, 0.0 if delay is None else _amount("--delay", delay, US_OF, "1ms"))

    def __str__(self) -> str:
        rate = "no limit" if self.bits_per_s is None else shown_rate(self.bits_per_s / 8)
        return f"{rate} each way" + (f", {shown_amount(self.delay_us, US_OF)} delay" if self.delay_us else "")


def _amount(option: str, text: str, size_of: dict[str, float], example: str) -> float:
    try:
        return parse_amount(text, size_of, example)
    except UsageError as fault:
        raise UsageError(f"{option} {fault}") from None


@dataclass(frozen=True)
class Host:
    """Where one process runs: what its command begins with, and how the others reach it."""

    address: str
    interface: str
    enter: tuple[str, ...] = ()


def cards_line(cards: tuple[Card, ...]) -> str:
    """Say in words what cards the hosts have."""
    return str(cards[0]) if len(set(cards)) == 1 else "; ".join(map(str, cards))


def on_loopback(number: int) -> tuple[Host, ...]:
    """Return hosts that are none: processes that meet on loopback."""
    return (Host("127.0.0.1", LOOPBACK),) * number


@contextmanager
def hosts(number: int, *cards: Card) -> Iterator[tuple[Host, ...]]:
    """Make the hosts for the block, with the same card or one each; NoHosts says why that cannot be done here."""
    _check_rights()
    remove_stale()
    switch, names = _name("switch"), [_name(str(index)) for index in range(number)]
    try:
        _add_namespace(switch)
        _ip("-n", switch, "link", "add", "bridge", "type", "bridge")
        _ip("-n", switch, "link", "set", "bridge", "up")
        for index, name in enumerate(names):
            _add_namespace(name)
            _plug_in(name, switch, index, cards[index] if len(cards) > 1 else cards[0])
        yield tuple(Host(_address(index), INTERFACE, ("ip", "netns", "exec", name)) for index, name in enumerate(names))
    finally:
        _remove([*names, switch])


def _check_rights() -> None:
    if missing := [tool for tool in ("ip", "tc") if not shutil.which(tool)]:
        raise NoHosts(f"emulated hosts need {missing[0]}; install iproute2")
    if os.geteuid() != 0:
        raise NoHosts("emulated hosts need root; run the command as root or with sudo")


def _name(what: str) -> str:
    return f"{PREFIX}-{os.getpid()}-{what}"


def _address(index: int) -> str:
    return f"10.199.{index // 250}.{index % 250 + 1}"


def _add_namespace(name: str) -> None:
    """Make a namespace; a container's root may not be allowed to."""
    try:
        _ip("netns", "add", name)
    except HyperplaceError as fault:
        raise NoHosts(f"emulated hosts are not allowed here: {fault}") from None


def _plug_in(name: str, switch: str, index: int, card: Card) -> None:
    port = f"port{index}"
    _ip("-n", name, "link", "add", INTERFACE, "type", "veth", "peer", "name", port, "netns", switch)
    _ip("-n", switch, "link", "set", port, "master", "bridge")
    _ip("-n", name, "address", "add", f"{_address(index)}/16", "dev", INTERFACE)
    for namespace, device in ((switch, port), (name, INTERFACE), (name, LOOPBACK)):
        _ip("-n", namespace, "link", "set", device, "up")
    root = ("root", "handle", "1:")
    if card.delay_us:
        _delay(name, card.delay_us)
    if card.bits_per_s is not None:
        _limit(name, INTERFACE, card.bits_per_s, ("parent", "1:1", "handle", "2:") if card.delay_us else root)
        _limit(switch, port, card.bits_per_s, root)


def _delay(namespace: str, delay_us: float) -> None:
    netem = ("netem", "delay", f"{delay_us:.0f}us", "limit", str(NETEM_PACKETS))
    try:
        _run("tc", "-n", namespace, "qdisc", "add", "dev", INTERFACE, "root", "handle", "1:", *netem)
    except HyperplaceError as fault:
        raise HyperplaceError(
            f"this kernel cannot delay packets ({fault}); load sch_netem, or leave --delay out"
        ) from None


def _limit(namespace: str, device: str, bits_per_s: float, where: tuple[str, ...]) -> None:
    burst = max(round(bits_per_s / 8 * BURST_S), LEAST_BURST_BYTES)
    queue = burst + round(bits_per_s / 8 * QUEUE_S)
    bucket = ("tbf", "rate", f"{bits_per_s:.0f}bit", "burst", str(burst), "limit", str(queue))
    _run("tc", "-n", namespace, "qdisc", "add", "dev", device, *where, *bucket)


def remove_stale() -> None:
    """Remove the hosts of processes that are gone."""
    lines = _ip("netns", "list").splitlines()
    found = [re.match(rf"({PREFIX}-(\d+)-\w+)\b", line) for line in lines]
    _remove([match[1] for match in found if match and not Path(f"/proc/{match[2]}").exists()])


def _remove(names: list[str]) -> None:
    for name in names:
        with suppress(HyperplaceError):  # it was not made yet
            _ip("netns", "delete", name)


def _ip(*words: str) -> str:
    return _run("ip", *words)


def _run(*words: str) -> str:
    """Run a command that Ctrl-C does not reach, and return what it prints."""
    ran = subprocess.run(words, capture_output=True, text=True, start_new_session=True, check=False)
    if ran.returncode:
        raise HyperplaceError(f"{' '.join(words)}: {ran.stderr.strip() or ran.returncode}".replace("\n", "; "))
    return ran.stdout


def sent_bytes(interface: str) -> int:
    """Return what this process's host has sent through an interface so far."""
    lines = Path("/proc/self/net/dev").read_text().splitlines()
    figures = next(line.split(":")[1].split() for line in lines if line.strip().startswith(f"{interface}:"))
    return int(figures[8])  # after eight columns of what was received


def settled_bytes(interface: str, limit_s: float) -> int:
    """Return the same once the interface is quiet: what was handed to a backend may still be on its way.

    A sign of life now and then, of a few hundred bytes, is quiet.
    """
    end, sent = time.monotonic() + limit_s, sent_bytes(interface)
    while time.monotonic() < end:
        time.sleep(QUIET_S)
        before, sent = sent, sent_bytes(interface)
        if sent - before < QUIET_BYTES:
            break
    return sent
