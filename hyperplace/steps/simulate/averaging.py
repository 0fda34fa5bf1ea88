"""What an epoch takes whose weights are averaged at its end: seconds of work + bytes + Cluster -> seconds."""

from collections.abc import Sequence

from hyperplace.steps.simulate.engine import run
from hyperplace.steps.simulate.tasks import Tasks
from hyperplace.values.cluster import Cluster
from hyperplace.values.derived.actions import Needs, Parcel
from hyperplace.values.schedule import BACKWARD, FORWARD, UPDATE


def averaged_epoch_s(work_s: Sequence[float], weight_bytes: int, cluster: Cluster) -> float:
    """Return how long nodes take to compute, to average their weights and to have the average.

    Each averages an nth of all weights: it gets that from all others, and sends it back to them; so every card carries
    as much as in a ring.
    """
    nodes = range(len(work_s))
    needs: Needs = {(p, FORWARD, 0): set() for p in nodes}
    needs |= {(p, UPDATE, 0): set() for p in nodes} | {(p, BACKWARD, 0): {(p, UPDATE, 0)} for p in nodes}
    work = {node: work_s[node[0]] if node[1] == FORWARD else 0.0 for node in needs}
    parcels = [parcel for p in nodes for parcel in _sent(p, len(nodes), weight_bytes)]
    todo = [[(0, (p, kind, 0)) for kind in (FORWARD, UPDATE, BACKWARD)] for p in nodes]
    return run(Tasks(needs, work, parcels, todo), cluster).end


def _sent(node: int, num_nodes: int, weight_bytes: int) -> list[Parcel]:
    """Return what a node sends, to its neighbour first: if all began with the same one, its card would be full."""
    others = [(node + step) % num_nodes for step in range(1, num_nodes)]
    share = -(-weight_bytes // num_nodes)
    own = [Parcel((node, FORWARD, 0), ((other, UPDATE, 0),), share) for other in others]
    return own + [Parcel((node, UPDATE, 0), ((other, BACKWARD, 0),), share) for other in others]
