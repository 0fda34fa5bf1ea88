"""Which parts share a host, as a plan knows it: the number of every part's host; nothing where that does not matter."""

from collections.abc import Iterator

from hyperplace.values.arguments import is_whole
from hyperplace.values.cluster import Cluster

Hosts = tuple[int, ...]  # of every part


def hosts_of(cluster: Cluster, num_parts: int) -> Hosts:
    """Return the hosts of parts on the first devices; nothing where all are on one, or each is on one of its own."""
    home = cluster.home[:num_parts]
    return home if 1 < len(set(home)) < len(home) else ()


def host_faults(hosts: Hosts, num_parts: int) -> Iterator[str]:
    """Say what is wrong with the hosts of parts."""
    if not isinstance(hosts, tuple) or not all(map(is_whole, hosts)):
        yield f"hosts {hosts!r} is no tuple of whole numbers; give every part's host, such as (0, 0, 1, 1)"
    elif hosts and len(hosts) != num_parts:
        yield f"hosts are those of {len(hosts)} parts, but k={num_parts}; give one for every part, or none"
    elif wrong := [host for host in hosts if not 0 <= host < num_parts]:
        yield f"host {wrong[0]} is outside 0..{num_parts - 1}; number hosts from 0"
