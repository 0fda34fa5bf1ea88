"""What it costs to be able to lose a host: every part is copied to another host after every so many updates.

Of a copy of C bytes, every n updates, a mini-batch bears C / n:

    the device     makes the copy, in line with its work, and sends it and receives another
    the cards      carry C out, and that of the host before it in

All parts copy after the same update, so what they spend on it is added to the mini-batch; sending goes on beside the
work, and counts only where that makes a device or a card the one that all wait for.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from hyperplace.values.cluster import Cluster
from hyperplace.values.forecast import Forecast
from hyperplace.values.prediction import IN, OUT

COPY_S_PER_BYTE = 1 / 4e9  # reading and writing of memory by one core, where that was not measured


@dataclass(frozen=True)
class SurviveCost:
    """What a mini-batch takes with copies every so many updates, and without; bytes are of the busiest card."""

    every: int
    seconds: float
    seconds_without: float
    card_bytes: float  # of a mini-batch

    @property
    def share(self) -> float:
        """By how much a mini-batch takes longer."""
        return self.seconds / self.seconds_without - 1


def survive_cost(one: Forecast, cluster: Cluster, every: int) -> SurviveCost:
    """Return what copies after every so many updates add to a forecast."""
    num_hosts = len(cluster.hosts)
    of_host = [0.0] * num_hosts
    for part, memory in enumerate(one.memory):
        of_host[cluster.home[part]] += memory.copied / every
    copying = max(memory.copied * _pace(cluster, part) for part, memory in enumerate(one.memory)) / every
    seconds = max([one.seconds + copying, *_loads(one, cluster, of_host, every)])
    return SurviveCost(every, seconds, one.seconds, max(of_host) if num_hosts > 1 else 0.0)


def _pace(cluster: Cluster, part: int) -> float:
    return cluster.devices[part].copy_s_per_byte or COPY_S_PER_BYTE


def _loads(one: Forecast, cluster: Cluster, of_host: list[float], every: int) -> Iterator[float]:
    """Yield how long every device and card is busy with a mini-batch and its share of the copies."""
    if len(cluster.hosts) == 1:
        return
    known = {host.name: number for number, host in enumerate(cluster.hosts)}
    for part, busy in enumerate(one.prediction.busy):
        number = cluster.home[part]
        host, own, ward = cluster.hosts[number], one.memory[part].copied / every, of_host[number - 1]
        each = ward / len(host.devices)
        sent = own * (_pace(cluster, part) + host.send_s_per_byte) + each * host.receive_s_per_byte
        yield busy * one.seconds + sent
    for name, number in known.items():
        host = cluster.hosts[number]
        yield one.prediction.cards.get((name, OUT), 0.0) * one.seconds + of_host[number] / host.out_rate
        yield one.prediction.cards.get((name, IN), 0.0) * one.seconds + of_host[number - 1] / host.in_rate
