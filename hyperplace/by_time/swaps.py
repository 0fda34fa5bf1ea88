"""Which part is on which device: the same parts on other devices, where devices are not alike.

A part stays as it is; only its number, which is that of its device, changes. Swaps within a host of equal devices
change nothing and are left out.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np

from hyperplace.values.arrays import Ints
from hyperplace.values.cluster import Cluster, Host

MOST_SWAPS = 40  # of two parts, at a time: each is simulated


def swapped(part_of: Ints, cluster: Cluster, busy: Sequence[float]) -> Iterator[Ints]:
    """Yield the owners of all vertices after parts have changed their devices; `busy` is what each part has to do.

    First the part with most work is put on the fastest device, the next on the next; then two parts change places,
    those with the busiest part first.
    """
    devices = cluster.devices[: len(busy)]
    speeds = np.array([device.speed for device in devices])
    work = np.array(busy) * speeds
    by_speed = np.empty(len(busy), np.int64)
    by_speed[np.argsort(-work, kind="stable")] = np.argsort(-speeds, kind="stable")
    if len(set(speeds.tolist())) > 1 and np.any(by_speed != np.arange(len(busy))):
        yield by_speed[part_of]
    pairs = [pair for pair in combinations(range(len(busy)), 2) if not _is_alike(cluster, *pair)]
    pairs.sort(key=lambda pair: -max(busy[pair[0]], busy[pair[1]]))
    for one, other in pairs[:MOST_SWAPS]:
        numbers = np.arange(len(busy))
        numbers[[one, other]] = other, one
        yield numbers[part_of]


def _is_alike(cluster: Cluster, one: int, other: int) -> bool:
    """Say whether a swap of the parts on two devices changes nothing that matters."""
    if cluster.devices[one] != cluster.devices[other]:
        return False
    here, there = cluster.home[one], cluster.home[other]
    if here == there:
        return True
    is_alone = len(cluster.hosts[here].devices) == len(cluster.hosts[there].devices) == 1
    return is_alone and _card(cluster, here) == _card(cluster, there)


def _card(cluster: Cluster, host: int) -> Host:
    """Return a host as if it had another's name and devices."""
    return replace(cluster.hosts[host], name="", devices=())
