"""Which way gradients and new weights of copies go, where several parts share a host: by a relay on each other host.

Without one, every part of a host sends its gradient of a filter through the host's network card, and gets the new
weight through it. Instead one of them adds all up and sends the sum, and hands the new weight on. As many bytes go
between parts, for a tree has one edge less than nodes whatever its shape; but between hosts each goes once.

    hosts (0, 0, 1, 1), filters on all four parts, part 0 owns them
    flat      1 -> 0, 2 -> 0, 3 -> 0      two gradients between the hosts
    by relay  1 -> 0, 3 -> 2 -> 0         one
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace

from hyperplace.values.hosts import Hosts
from hyperplace.values.plan import Replica
from hyperplace.values.ranges import Ranges

Group = tuple[str, int, int, Ranges]  # a layer, the owner of some of its filters, another host, the filters


def routed(replicas: Iterable[Replica], hosts: Hosts) -> Iterator[Replica]:
    """Yield replicas in their order, with a relay where parts on another host than the owner's hold the same.

    Of these parts it is the one that relays least so far, or the first of several: then none is much in demand.
    """
    found = list(replicas)
    relay_of = _relays(found, hosts) if hosts else {}
    for one in found:
        relay = relay_of.get(_group(one, hosts)) if hosts else None
        yield replace(one, via=None if relay == one.part else relay)


def _relays(replicas: list[Replica], hosts: Hosts) -> dict[Group, int]:
    members: dict[Group, list[int]] = {}
    for one in replicas:
        if one.parameter_bytes and hosts[one.part] != hosts[one.owner]:
            members.setdefault(_group(one, hosts), []).append(one.part)
    size_of = {_group(one, hosts): one.parameter_bytes for one in replicas}
    relayed: Counter[int] = Counter()  # bytes of every part
    found: dict[Group, int] = {}
    for group, parts in members.items():
        if len(parts) > 1:
            found[group] = min(parts, key=lambda part: (relayed[part], part))
            relayed[found[group]] += size_of[group] * len(parts)
    return found


def _group(one: Replica, hosts: Hosts) -> Group:
    return one.layer, one.owner, hosts[one.part], one.filters
