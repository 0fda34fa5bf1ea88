"""Tasks as numbers and arrays, and the state of their simulation: what compiled code can follow."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from hyperplace.steps.simulate.tasks import Tasks
from hyperplace.values.arrays import Floats, Ints
from hyperplace.values.cluster import Cluster
from hyperplace.values.derived.actions import Node, Parcel
from hyperplace.values.schedule import NORM, RELAY, UPDATE

AT_ONCE, INSIDE, BY_CARDS = 0, 1, 2  # how a parcel goes: without a network, within a host, from host to host
HOST = ("out_rate", "in_rate", "latency_s", "send_s_per_byte", "receive_s_per_byte", "message_s", "queue_s")
NOBODY = -1  # whose mini-batch new weights are for, if it is beyond what is simulated


class Wiring(NamedTuple):
    """Actions by number (mini-batch * number of nodes + node), and who waits for whom; lists are offsets plus items."""

    num_nodes: int
    part_of: Ints  # of every node
    work: Floats  # of every node
    todo: Ints  # actions of all parts in their order
    todo_at: Ints  # of every part
    followers: Ints  # nodes
    followers_later: Ints  # of the mini-batch so many later
    followers_at: Ints  # of every node
    parcels_at: Ints  # of every node: the parcels are in the order of their makers
    left: Floats  # this and the following of every parcel
    is_gradient: Ints
    is_bulk: Ints
    way: Ints
    source: Ints
    target: Ints
    later: Ints
    takers: Ints
    takers_at: Ints
    num_bytes: Floats
    inside_s: Floats
    home: Ints  # of every part
    hosts: Floats  # [host]: what HOST names
    adds_up: int


class State(NamedTuple):
    """What events change."""

    missing: Ints  # for how much every action still waits
    place: Ints  # of every part among its actions
    is_busy: Ints
    free: Floats  # when what a part computes or does for the network is done
    queues: Floats  # [host, way, is_bulk]: until when they are full
    cards: Floats  # [host, way]: how long each was busy; below 0 where nothing went through
    begin: Floats  # of every action
    end: Floats
    foreseen: Ints  # one number: events of the same time happen in the order in which they were foreseen


def wired(tasks: Tasks, cluster: Cluster | None) -> Wiring:
    """Return the tasks as arrays."""
    number_of = {node: number for number, node in enumerate(tasks.needs)}
    todo = [[batch * len(number_of) + number_of[node] for batch, node in some] for some in tasks.todo]
    followers = _followers(tasks)
    makers: dict[Node, list[Parcel]] = defaultdict(list)
    for parcel in tasks.parcels:
        makers[parcel.maker].append(parcel)
    parcels = [parcel for node in number_of for parcel in makers[node]]
    return Wiring(
        num_nodes=len(number_of),
        part_of=_ints(node[0] for node in number_of),
        work=np.array([tasks.work[node] for node in number_of], np.float64),
        todo=_ints(action for some in todo for action in some),
        todo_at=_offsets(todo),
        followers=_ints(number_of[follower] for node in number_of for follower, _ in followers[node]),
        followers_later=_ints(later for node in number_of for _, later in followers[node]),
        followers_at=_offsets([followers[node] for node in number_of]),
        parcels_at=_offsets([makers[node] for node in number_of]),
        left=np.array([parcel.left for parcel in parcels], np.float64),
        is_gradient=_ints(parcel.takers[0][1] in (UPDATE, NORM, RELAY) for parcel in parcels),
        is_bulk=_ints(parcel.is_bulk for parcel in parcels),
        way=_ints(_way(parcel, cluster) for parcel in parcels),
        source=_ints(parcel.maker[0] for parcel in parcels),
        target=_ints(parcel.takers[0][0] for parcel in parcels),
        later=_ints(0 if one.weight is None else tasks.delays.get(one.weight, NOBODY) for one in parcels),
        takers=_ints(number_of[taker] for parcel in parcels for taker in parcel.takers),
        takers_at=_offsets([parcel.takers for parcel in parcels]),
        num_bytes=np.array([parcel.num_bytes for parcel in parcels], np.float64),
        inside_s=np.array([_inside_s(parcel, cluster) for parcel in parcels], np.float64),
        home=_ints(cluster.home if cluster else ()),
        hosts=_hosts(cluster),
        adds_up=tasks.adds_up,
    )


def _ints(values: Any) -> Ints:
    return np.array(list(values), np.int64)


def _offsets(lists: Sequence[Sequence[Any]]) -> Ints:
    return np.cumsum([0, *map(len, lists)], dtype=np.int64)


def _followers(tasks: Tasks) -> dict[Node, list[tuple[Node, int]]]:
    """Return who waits for every action, of which later mini-batch."""
    found: dict[Node, list[tuple[Node, int]]] = defaultdict(list)
    for node, needs in tasks.needs.items():
        for need in needs:
            found[need].append((node, 0))
    for weight, users in tasks.users.items():
        found[weight[0], UPDATE, 0] += [(user, tasks.delays[weight]) for user in users]
    return found


def _way(parcel: Parcel, cluster: Cluster | None) -> int:
    if cluster is None or parcel.maker[0] == parcel.takers[0][0]:
        return AT_ONCE
    return INSIDE if cluster.home[parcel.maker[0]] == cluster.home[parcel.takers[0][0]] else BY_CARDS


def _inside_s(parcel: Parcel, cluster: Cluster | None) -> float:
    if cluster is None or _way(parcel, cluster) != INSIDE:
        return 0.0
    return cluster.lag(parcel.maker[0], parcel.takers[0][0], parcel.num_bytes)


def _hosts(cluster: Cluster | None) -> Any:
    rows = [[getattr(one, name) for name in HOST] for one in (cluster.hosts if cluster else ())]
    return np.array(rows, np.float64).reshape(-1, len(HOST))


def state_before(tasks: Tasks, cluster: Cluster | None) -> State:
    """Return the state before anything has happened."""
    num_parts, num_hosts = len(tasks.todo), len(cluster.hosts) if cluster else 0
    missing = _missing(tasks)
    return State(
        missing=missing,
        place=np.zeros(num_parts, np.int64),
        is_busy=np.zeros(num_parts, np.int64),
        free=np.zeros(num_parts),
        queues=np.zeros((num_hosts, 2, 2)),
        cards=np.full((num_hosts, 2), -1.0),
        begin=np.zeros(len(missing)),
        end=np.zeros(len(missing)),
        foreseen=np.zeros(1, np.int64),
    )


def _missing(tasks: Tasks) -> Ints:
    """Return for how much every action waits at first."""
    number_of = {node: number for number, node in enumerate(tasks.needs)}
    num_batches = 1 + max((batch for todo in tasks.todo for batch, _ in todo), default=-1)
    waits = np.zeros((num_batches, len(number_of)), np.int64)
    for node, needs in tasks.needs.items():
        waits[:, number_of[node]] += len(needs)
    for weight, users in tasks.users.items():
        for user in users:
            waits[tasks.delays[weight] :, number_of[user]] += 1
    for parcel in tasks.parcels:
        for taker in parcel.takers:
            if parcel.weight is None:
                waits[:, number_of[taker]] += 1
            elif parcel.weight in tasks.delays:
                # Of micro-batches the first of the next iteration is the one that waits.
                waits[tasks.adds_up - 1 + tasks.delays[parcel.weight] :: tasks.adds_up, number_of[taker]] += 1
    return waits.ravel()
