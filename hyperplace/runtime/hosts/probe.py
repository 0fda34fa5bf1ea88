"""Find out what the processes of a run are on: how fast each computes, and what their network takes.

Each process is a device, and those of one host share its card. Speeds are relative to the first process, where plans
are made. What a device does for the network is counted by its own processor time.
"""

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from statistics import median

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn import functional

from hyperplace.runtime.hosts.hops import measured_hop
from hyperplace.values.cluster import Cluster, Device, Host

PINGS, ROUNDS = 50, 8
FIRST_BYTES, MOST_BYTES = 1 << 20, 1 << 28
SPEED_S = 1.0
COPIED_BYTES = 1 << 26  # more than caches hold
LEAST_RATE = 1.0  # bytes per second, so that nothing is divided by 0


@dataclass(frozen=True)
class _Road:
    """What bytes from one process to another take."""

    rate: float
    send_s_per_byte: float
    receive_s_per_byte: float


def probe(seconds: float = 5.0) -> Cluster:
    """Return the cluster that the processes of torch.distributed are on; all of them call it.

    Each exchange between the first process and another takes about the time given, shared by all.
    """
    if not (dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1):
        return Cluster((Host(socket.gethostname(), (_device(),)),))
    mine = {"host": _host_name(), "speed": _speed(), "memory": _memory_bytes(), "copy": _copy_s_per_byte()}
    known = _told(mine)
    each_s = seconds / (3 * (dist.get_world_size() - 1))
    latency, out, back, behind = [0.0], [], [], []
    bulk = dist.new_group()  # with connections of its own
    for other in range(1, dist.get_world_size()):
        latency.append(_between(other, lambda peer: _latency(peer)))
        out.append(_road(0, other, each_s))
        back.append(_road(other, 0, each_s))
        num_bytes = int(min(min(out[-1].rate, back[-1].rate) * each_s / 2, MOST_BYTES))
        behind.append(_between(other, partial(_latency_behind, num_bytes, bulk)) - latency[-1])
    dist.destroy_process_group(bulk)
    message_s, hop_s = _hop_s()
    # In a run a message is on its way for longer than a ping: all that is not its receiver's work.
    more_s = max(hop_s - message_s - median(latency[1:]), 0.0)
    found = _cluster(known, [0.0, *(ping + more_s for ping in latency[1:])], out, back)
    queue_s = max(median(behind), 0.0)
    return Cluster(tuple(replace(host, message_s=message_s, queue_s=queue_s) for host in found.hosts))


def _cluster(known: list[Mapping[str, object]], latency: list[float], out: list[_Road], back: list[_Road]) -> Cluster:
    """Return the hosts; the first one's card is as fast as the best exchange with it."""
    best_out, best_in = (max(roads, key=lambda road: road.rate) for roads in (out, back))
    roads = [(best_out, best_in), *zip(back, out, strict=True)]  # of every process: what it sends, what it receives
    latency[0] = min(latency[1:])
    first = float(known[0]["speed"])  # type: ignore[arg-type]
    hosts: dict[str, Host] = {}
    for rank, facts in enumerate(known):
        speed = round(float(facts["speed"]) / first, 3)  # type: ignore[arg-type]
        device = Device("cpu", speed, facts["memory"], copy_s_per_byte=facts["copy"])  # type: ignore[arg-type]
        name, (sends, receives) = str(facts["host"]), roads[rank]
        if name in hosts:
            hosts[name] = replace(hosts[name], devices=(*hosts[name].devices, device))
        else:
            hosts[name] = Host(
                name,
                (device,),
                out_rate=sends.rate,
                in_rate=receives.rate,
                latency_s=latency[rank],
                send_s_per_byte=sends.send_s_per_byte,
                receive_s_per_byte=receives.receive_s_per_byte,
            )
    return Cluster(tuple(hosts.values()))


def _device() -> Device:
    return Device("cpu", memory_bytes=_memory_bytes())


def _host_name() -> str:
    """Return the host's name; where torchrun numbers the hosts, that too: names may be alike."""
    number = os.environ.get("GROUP_RANK")
    return socket.gethostname() + ("" if number is None else f" {number}")


def _memory_bytes() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):
        return None


def _told(mine: object) -> list[Mapping[str, object]]:
    known: list[Mapping[str, object]] = [{}] * dist.get_world_size()
    dist.all_gather_object(known, mine)
    return known


def _speed() -> float:
    """Return how often a convolution goes, forward and backward, in a second; all processes try at the same time."""
    dist.barrier()
    x, weight = torch.randn(4, 64, 32, 32), torch.randn(64, 64, 3, 3, requires_grad=True)
    times: list[float] = []
    end = time.perf_counter() + SPEED_S
    while time.perf_counter() < end:
        begin = time.perf_counter()
        functional.conv2d(x, weight, padding=1).sum().backward()  # type: ignore[no-untyped-call]
        times.append(time.perf_counter() - begin)
    # The mean and not the median: a share of a core is there at times, and at others not at all.
    return len(times) / sum(times)


def _copy_s_per_byte() -> float:
    """Return what a byte takes from one place of memory to another; all processes try at the same time."""
    source, target = torch.ones(COPIED_BYTES, dtype=torch.uint8), torch.zeros(COPIED_BYTES, dtype=torch.uint8)
    dist.barrier()
    times: list[float] = []
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        target.copy_(source)
        times.append(time.perf_counter() - begin)
    return sum(times) / len(times) / COPIED_BYTES  # the mean, as for the speed


def _between(other: int, measure: Callable[[int], float]) -> float:
    """Return what the first process measures with another; those that have no part in it wait."""
    rank, found = dist.get_rank(), torch.zeros(1, dtype=torch.float64)
    dist.barrier()
    if rank in (0, other):
        found[0] = measure(other if rank == 0 else 0)
    dist.broadcast(found, 0)
    return float(found[0])


def _latency(peer: int) -> float:
    """Return half of what a byte takes there and back."""
    return median(took for _, took in _pings(peer)) / 2


def _latency_behind(num_bytes: int, bulk: dist.ProcessGroup, peer: int) -> float:
    """Return the same while many bytes go both ways through another connection, as far as they last."""
    out, back = (torch.ones(max(num_bytes, 1), dtype=torch.uint8) for _ in range(2))
    works = [dist.irecv(back, peer, group=bulk), dist.isend(out, peer, group=bulk)]
    ends: list[float] = []

    def wait() -> None:
        for work in works:
            assert work is not None, "this process is of the group"
            work.wait()
        ends.append(time.perf_counter())

    waiting = threading.Thread(target=wait, daemon=True)
    waiting.start()
    pings = list(_pings(peer))
    waiting.join()
    meanwhile = [took for end, took in pings if end <= ends[0]]
    return median(meanwhile) / 2 if meanwhile else 0.0


def _pings(peer: int) -> Iterator[tuple[float, float]]:
    """Yield when a byte has been there and back, and how long it took, again and again."""
    byte = torch.zeros(1, dtype=torch.uint8)
    for _ in range(PINGS):
        begin = time.perf_counter()
        _exchange(byte, peer, is_first=dist.get_rank() == 0)
        end = time.perf_counter()
        yield end, end - begin


def _hop_s() -> tuple[float, float]:
    """Return what a short message costs either end, and how long it takes, the middle one of all processes."""
    hop = measured_hop(dist.get_world_size())
    hops = _told({"busy": min(hop.busy_s, hop.seconds), "all": hop.seconds})
    busy, whole = (median(float(one[what]) for one in hops) for what in ("busy", "all"))  # type: ignore[arg-type]
    return busy, whole


def _exchange(tensor: Tensor, peer: int, *, is_first: bool) -> None:
    for sends in (is_first, not is_first):
        if sends:
            dist.send(tensor, peer)
        else:
            dist.recv(tensor, peer)


def _road(source: int, target: int, seconds: float) -> _Road:
    """Return what bytes from one process to another take, with as many as take about the time given in all rounds."""
    other = max(source, target)
    took = _between(other, lambda peer: _sent(FIRST_BYTES, peer, sends=dist.get_rank() == source)[0])
    rounds, num_bytes = _rounds_and_bytes(took, seconds)
    own: list[tuple[float, float]] = []

    def measure(peer: int) -> float:
        own.append(_sent(num_bytes, peer, sends=dist.get_rank() == source, rounds=rounds))
        return own[-1][0]

    took = _between(other, measure)
    busy = [float(facts["busy"]) for facts in _told({"busy": own[-1][1] if own else 0.0})]  # type: ignore[arg-type]
    return _Road(max(num_bytes / took, LEAST_RATE), busy[source] / num_bytes, busy[target] / num_bytes)


def _rounds_and_bytes(took: float, seconds: float) -> tuple[int, int]:
    """Return how often to send how many bytes in the time given, where the first ones took so long.

    A slow network has time for fewer rounds: each is at least as long as that first one.
    """
    took = max(took, 1e-6)
    rounds = max(1, min(ROUNDS, int(seconds / took)))
    return rounds, int(min(max(FIRST_BYTES * seconds / rounds / took, FIRST_BYTES), MOST_BYTES))


def _sent(num_bytes: int, peer: int, *, sends: bool, rounds: int = 1) -> tuple[float, float]:
    """Send or receive bytes and wait for one back; return the seconds, and those of the own processor.

    The middle one of the rounds: a machine may stand still in one of them. Their memory is written to beforehand: were
    it received into page by page, that would be timed.
    """
    tensor, byte = torch.ones(num_bytes, dtype=torch.uint8), torch.zeros(1, dtype=torch.uint8)
    times: list[float] = []
    works: list[float] = []
    for _ in range(rounds):
        begin, busy = time.perf_counter(), time.process_time()
        if sends:
            dist.send(tensor, peer)
            dist.recv(byte, peer)
        else:
            dist.recv(tensor, peer)
            dist.send(byte, peer)
        times.append(time.perf_counter() - begin)
        works.append(time.process_time() - busy)
    return median(times), median(works)
