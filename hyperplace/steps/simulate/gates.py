"""Cut forward passes where a layer needs new weights of a copy: Tasks -> Tasks.

    F0 ....|.......|....      the layers before the first bar compute while the network still brings the others' weights

An action waits for all it needs before it begins, so one that needs something only on its way becomes several, one
after the other; the last keeps its name, for those who wait for it.
"""

from collections import defaultdict
from dataclasses import replace

from hyperplace.steps.simulate.tasks import Done, Spans, Tasks, kind_of
from hyperplace.values.derived.actions import Node, Parcel

GRADES = 8  # at how many places a pass may be cut: weights needed later are taken to be needed at the one before

Shares = dict[Node, list[float]]  # where each action is cut, from 0


def gated(tasks: Tasks) -> Tasks:
    """Return the same tasks with forward passes in pieces."""
    shares = _shares(tasks)
    if not shares:
        return tasks
    pieces = {node: _pieces(node, len(some)) for node, some in shares.items()}
    first = {node: some[0] for node, some in pieces.items()}
    needs = tasks.needs | {piece: set() for some in pieces.values() for piece in some}
    needs |= {piece: tasks.needs[node] for node, piece in first.items()}
    lengths = {node: [b - a for a, b in zip(some, [*some[1:], 1.0], strict=True)] for node, some in shares.items()}
    work = dict(tasks.work)
    for node, some in pieces.items():
        work |= {piece: tasks.work[node] * length for piece, length in zip(some, lengths[node], strict=True)}

    def taken(parcel: Parcel) -> Parcel:
        into = parcel.into or (0.0,) * len(parcel.takers)
        found = (
            pieces[taker][shares[taker].index(_graded(share))] if taker in pieces else taker
            for taker, share in zip(parcel.takers, into, strict=True)
        )
        return replace(parcel, takers=tuple(found))

    def done(some: Done) -> list[Done]:
        batch, node = some
        return [(batch, piece) for piece in pieces.get(node, (node,))]

    return replace(
        tasks,
        needs=needs,
        work=work,
        parcels=[taken(parcel) for parcel in tasks.parcels],
        todo=[[one for some in todo for one in done(some)] for todo in tasks.todo],
        users={weight: {first.get(user, user) for user in users} for weight, users in tasks.users.items()},
    )


def _shares(tasks: Tasks) -> Shares:
    found: dict[Node, set[float]] = defaultdict(set)
    for parcel in tasks.parcels:
        for taker, share in zip(parcel.takers, parcel.into, strict=False):
            found[taker].add(_graded(share))
    return {node: sorted(some | {0.0}) for node, some in found.items() if some != {0.0}}


def _graded(share: float) -> float:
    return int(share * GRADES) / GRADES


def _pieces(node: Node, number: int) -> list[Node]:
    part, kind, segment = node
    return [*((part, f"{kind}{piece}", segment) for piece in range(number - 1)), node]


def whole(spans: Spans) -> Spans:
    """Return when actions begin and end, whatever pieces they were in."""
    found: Spans = {}
    for (batch, node), (begin, end) in spans.items():
        key = batch, (node[0], kind_of(node), node[2])
        known = found.get(key, (begin, end))
        found[key] = min(known[0], begin), max(known[1], end)
    return found
