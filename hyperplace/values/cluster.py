"""The machines that parts run on: hosts with devices, a network card each, and what joins the devices of one host.

Part p runs on device p, counted through the hosts in order. Rates are bytes per second, times seconds.
"""

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property

from hyperplace.errors import UsageError
from hyperplace.values.drawn import Drawn

BITS_OF = {"kbit": 1e3, "mbit": 1e6, "gbit": 1e9}
SECONDS_OF = {"us": 1e-6, "ms": 1e-3, "s": 1.0}
# What two devices of a host send each other, in bytes per second: threads of one process share memory and copy nothing.
INSIDE = {"shared": math.inf, "pcie": 12e9, "nvlink": 150e9}
CPU = "cpu"  # the kind of a device whose memory is the host's own
MOST_DEVICES = 4096
SHORT = re.compile(r"(\d{1,4})x(\d{1,4})(?:@(.+))?", re.ASCII)


@dataclass(frozen=True)
class Device:
    """What runs a part: `speed` is relative to the machine that the costs were measured on."""

    kind: str = CPU
    speed: float = 1.0
    memory_bytes: int | None = None  # no limit
    flops_per_s: float | None = None  # of one with speed 1; what costs in FLOPs need
    copy_s_per_byte: float | None = None  # within its memory, read and written; not known is taken as nothing

    def seconds(self, work: float, unit: str) -> float:
        """Return how long it takes for some work in microseconds or FLOPs."""
        if unit == "us":
            return work * 1e-6 / self.speed
        if self.flops_per_s is None:
            raise UsageError(
                "the costs are FLOPs, and the cluster does not say how many a device does in a second; measure the "
                "costs (--costs measured), or set flops_per_s in the cluster's file"
            )
        return work / (self.flops_per_s * self.speed)


@dataclass(frozen=True)
class Host:
    """A machine: what its card sends and receives, full duplex, and what its devices send each other."""

    name: str
    devices: tuple[Device, ...] = (Device(),)
    out_rate: float = math.inf
    in_rate: float = math.inf
    latency_s: float = 0.0
    send_s_per_byte: float = 0.0  # of a device's own time
    receive_s_per_byte: float = 0.0
    message_s: float = 0.0  # the same for every message, sent or received, however short
    queue_s: float = 0.0  # that a message waits at the card where gradients or weights of copies are on their way out
    inside_rate: float = math.inf
    inside_latency_s: float = 0.0


@dataclass(frozen=True)
class Cluster(Drawn):
    """Hosts, joined by a network that is as fast as their cards."""

    hosts: tuple[Host, ...]

    def __post_init__(self) -> None:
        if faults := list(self._faults()):
            raise UsageError("not a cluster: " + "; ".join(faults))

    def _faults(self) -> Iterator[str]:
        names = [host.name for host in self.hosts]
        if not self.hosts:
            yield "it has no hosts"
        if len(set(names)) < len(names):
            yield f"two hosts have the name {next(name for name in names if names.count(name) > 1)!r}"
        if self.num_devices > MOST_DEVICES:
            yield f"it has {self.num_devices} devices, more than {MOST_DEVICES}"
        for host in self.hosts:
            yield from _host_faults(host)

    @property
    def num_devices(self) -> int:
        return sum(len(host.devices) for host in self.hosts)

    @cached_property
    def devices(self) -> tuple[Device, ...]:
        return tuple(device for host in self.hosts for device in host.devices)

    @cached_property
    def home(self) -> tuple[int, ...]:
        """The host of every device."""
        return tuple(number for number, host in enumerate(self.hosts) for _ in host.devices)

    @property
    def scaled_kinds(self) -> tuple[str, ...]:
        """The kinds of device other than the first one's, which costs are of: of others only a speed is known."""
        return tuple(dict.fromkeys(one.kind for one in self.devices if one.kind != self.devices[0].kind))

    def check_parts(self, num_parts: int) -> None:
        """Refuse more parts than there are devices."""
        if num_parts > self.num_devices:
            raise UsageError(f"{num_parts} parts need as many devices, and the cluster has {self.num_devices}")

    def lag(self, source: int, target: int, num_bytes: float) -> float:
        """Return how long bytes from one device to another take if nothing else is under way."""
        here, there = self.hosts[self.home[source]], self.hosts[self.home[target]]
        if here is there:
            return here.inside_latency_s + num_bytes / here.inside_rate
        return here.latency_s + num_bytes / min(here.out_rate, there.in_rate)

    def at_pace(self, paces: Sequence[float]) -> "Cluster":
        """Return the same hosts with devices that take so many times as long for their work; the network stays.

        A pace for every host, or one for all.
        """
        own = paces if len(paces) > 1 else [*paces] * len(self.hosts)
        slowed = (
            tuple(replace(device, speed=device.speed / pace) for device in host.devices)
            for host, pace in zip(self.hosts, own, strict=True)
        )
        return Cluster(tuple(replace(host, devices=some) for host, some in zip(self.hosts, slowed, strict=True)))

    def host_rate(self, device: int) -> float | None:
        """Return the bytes per second between a device's memory and its host's; None where they are the same."""
        if self.devices[device].kind == CPU:
            return None
        return min(self.hosts[self.home[device]].inside_rate, INSIDE["pcie"])  # faster links join devices only

    def __str__(self) -> str:
        rate = min((host.out_rate for host in self.hosts), default=math.inf)
        card = "no limit" if rate == math.inf else shown_rate(rate)
        return f"{len(self.hosts)} hosts, {self.num_devices} devices, {card}"


def _host_faults(host: Host) -> Iterator[str]:
    if not host.devices:
        yield f"host {host.name!r} has no devices"
    for rate in ("out_rate", "in_rate", "inside_rate"):
        if not getattr(host, rate) > 0:
            yield f"host {host.name!r} has the {rate} {getattr(host, rate):g}; it must be above 0"
    for time in ("latency_s", "inside_latency_s", "send_s_per_byte", "receive_s_per_byte", "message_s", "queue_s"):
        if not 0 <= getattr(host, time) < math.inf:
            yield f"host {host.name!r} has the {time} {getattr(host, time):g}; it must be 0 or more"
    for device in host.devices:
        for field in fields(device)[1:]:
            value = getattr(device, field.name)
            if value is not None and not 0 < value < math.inf:
                yield f"a device of host {host.name!r} has the {field.name} {value:g}; it must be above 0"


def parse_cluster(text: str) -> Cluster:
    """Return the cluster of a short form, such as `4x1@1gbit` or `2x4@10gbit,pcie,0.1ms`: hosts x devices @ card."""
    found = SHORT.fullmatch(text.strip().lower())
    if not found:
        raise UsageError(
            f"cluster {text!r} is neither a file nor of the form 4x1@1gbit or 2x4@10gbit,pcie: hosts x devices @ rate"
        )
    num_hosts, num_devices = int(found[1]), int(found[2])
    if num_hosts * num_devices > MOST_DEVICES:
        raise UsageError(f"cluster {text!r} has {num_hosts * num_devices} devices, more than {MOST_DEVICES}")
    rate, inside, latency = math.inf, INSIDE["shared"], 0.0
    for word in found[3].split(",") if found[3] else ():
        if word in INSIDE:
            inside = INSIDE[word]
        elif word.endswith("bit"):
            rate = parse_rate(word)
        elif word.endswith("s") and word[0].isdigit():
            latency = parse_amount(word, SECONDS_OF, "0.1ms")
        else:
            raise UsageError(
                f"cluster {text!r}: {word!r} is no rate such as 1gbit, no latency such as 0.1ms, and none of "
                f"{', '.join(INSIDE)}"
            )
    host = {"out_rate": rate, "in_rate": rate, "latency_s": latency, "inside_rate": inside}
    devices = (Device(),) * num_devices
    return Cluster(tuple(Host(f"host {number}", devices, **host) for number in range(num_hosts)))


def parse_rate(text: str) -> float:
    """Return the bytes per second of a text such as 1gbit."""
    return parse_amount(text, BITS_OF, "1gbit") / 8


def parse_amount(text: str, size_of: dict[str, float], example: str) -> float:
    """Return the size of a number with a unit."""
    found = re.fullmatch(rf"(\d{{1,9}}(?:\.\d{{1,9}})?)({'|'.join(size_of)})", text.strip().lower(), re.ASCII)
    if not found:
        raise UsageError(f"{text} is not a number with one of {', '.join(size_of)}; write it like {example}")
    return float(found[1]) * size_of[found[2]]


def shown_rate(rate: float) -> str:
    """Return bytes per second as bits: `1 Gbit/s`."""
    amount, unit = shown_amount(rate * 8, BITS_OF).split()
    return f"{amount} {unit.capitalize()}/s"


def shown_amount(amount: float, size_of: dict[str, float]) -> str:
    """Return the amount in the largest unit of which it is one at least."""
    fitting = [unit for unit in size_of if size_of[unit] <= amount] or list(size_of)[:1]
    unit = max(fitting, key=size_of.__getitem__)
    return f"{amount / size_of[unit]:g} {unit}"
