"""The loop over events, compiled by numba: what happens next, and what that lets happen later.

Sixteen devices that all have copies of VGG16's convolutions send each other 11,000 parcels for a mini-batch, and a
prediction takes dozens of mini-batches: in Python seconds, here tens of milliseconds.
"""

from heapq import heappop, heappush
from typing import Any

from hyperplace.machine_code import entry, inlined
from hyperplace.steps.simulate.wiring import AT_ONCE, BY_CARDS, INSIDE, NOBODY, State, Wiring

_TRY, _FINISH, _SEND, _ENTER, _ARRIVE = 0, 1, 2, 3, 4


@entry()
def play(wiring: Wiring, state: State) -> float:
    """Let everything happen; return when the last thing did."""
    events = [(0.0, 0, _TRY, part, 0, 0.0) for part in range(len(state.place))]
    state.foreseen[0] = len(events)
    end = 0.0
    while len(events):
        now, _, kind, what, batch, sent = heappop(events)
        if kind == _TRY:
            _try(wiring, state, events, what, now)
        elif kind == _FINISH:
            _finish(wiring, state, events, what, now)
        elif kind == _SEND:
            _send(wiring, state, events, what, batch, now)
        elif kind == _ENTER:
            _enter(wiring, state, events, what, batch, sent, now)
        else:
            _arrive(wiring, state, events, what, batch, now)
        end = max(end, now)
    return end


@inlined()
def _at(state: State, events: Any, time: float, kind: int, what: int, batch: int, sent: float) -> None:
    state.foreseen[0] += 1
    heappush(events, (time, state.foreseen[0], kind, what, batch, sent))


@inlined()
def _try(wiring: Wiring, state: State, events: Any, part: int, now: float) -> None:
    """Begin a part's next action, if it can."""
    place = wiring.todo_at[part] + state.place[part]
    if state.is_busy[part] or place == wiring.todo_at[part + 1] or state.missing[wiring.todo[place]]:
        return
    if state.free[part] > now:
        _at(state, events, state.free[part], _TRY, part, 0, 0.0)
        return
    action = wiring.todo[place]
    node = action % wiring.num_nodes
    work = wiring.work[node]
    state.begin[action], state.end[action] = now, now + work
    state.is_busy[part], state.free[part] = 1, now + work
    _at(state, events, now + work, _FINISH, action, 0, 0.0)
    for parcel in range(wiring.parcels_at[node], wiring.parcels_at[node + 1]):
        if wiring.left[parcel]:
            _at(state, events, now + work * (1 - wiring.left[parcel]), _SEND, parcel, action // wiring.num_nodes, 0.0)


@inlined()
def _finish(wiring: Wiring, state: State, events: Any, action: int, now: float) -> None:
    batch, node = action // wiring.num_nodes, action % wiring.num_nodes
    part = wiring.part_of[node]
    state.is_busy[part] = 0
    state.place[part] += 1
    for parcel in range(wiring.parcels_at[node], wiring.parcels_at[node + 1]):
        if not wiring.left[parcel]:
            _send(wiring, state, events, parcel, batch, now)
    for number in range(wiring.followers_at[node], wiring.followers_at[node + 1]):
        later = batch + wiring.followers_later[number]
        _satisfy(wiring, state, events, later, wiring.followers[number], now)
    _try(wiring, state, events, part, now)


@inlined()
def _satisfy(wiring: Wiring, state: State, events: Any, batch: int, node: int, now: float) -> None:
    action = batch * wiring.num_nodes + node
    if action < len(state.missing):
        state.missing[action] -= 1
    _try(wiring, state, events, wiring.part_of[node], now)


@inlined()
def _send(wiring: Wiring, state: State, events: Any, parcel: int, batch: int, now: float) -> None:
    if wiring.is_gradient[parcel] and (batch + 1) % wiring.adds_up:
        return
    if wiring.way[parcel] == AT_ONCE:
        _arrive(wiring, state, events, parcel, batch, now)
    elif wiring.way[parcel] == INSIDE:
        _at(state, events, now + wiring.inside_s[parcel], _ARRIVE, parcel, batch, 0.0)
    else:
        _leave(wiring, state, events, parcel, batch, now)


@inlined()
def _leave(wiring: Wiring, state: State, events: Any, parcel: int, batch: int, now: float) -> None:
    """Put a parcel into the queue of its sender's card."""
    source = wiring.source[parcel]
    home, num_bytes = wiring.home[source], wiring.num_bytes[parcel]
    length = num_bytes / wiring.hosts[home, 0]
    latency = wiring.hosts[home, 2] + _behind(wiring, state, home, wiring.is_bulk[parcel], now)
    begin = _queued(state, home, 0, wiring.is_bulk[parcel], length, now)
    end = begin + length
    state.cards[home, 0] = max(state.cards[home, 0], 0.0) + length
    _occupy(state, source, num_bytes * wiring.hosts[home, 3] + wiring.hosts[home, 5], now)
    _at(state, events, begin + latency, _ENTER, parcel, batch, end + latency)


@inlined()
def _enter(wiring: Wiring, state: State, events: Any, parcel: int, batch: int, sent: float, now: float) -> None:
    """Put a parcel, all of which will be there when it is sent, into the queue of its receiver's card."""
    home = wiring.home[wiring.target[parcel]]
    lane, length = wiring.is_bulk[parcel], wiring.num_bytes[parcel] / wiring.hosts[home, 1]
    end = max(_queued(state, home, 1, lane, length, now) + length, sent)
    state.queues[home, 1, lane] = end
    state.cards[home, 1] = max(state.cards[home, 1], 0.0) + length
    _at(state, events, end, _ARRIVE, parcel, batch, 0.0)


@inlined()
def _behind(wiring: Wiring, state: State, home: int, lane: int, now: float) -> float:
    """Return what a message waits for packets of gradients and weights that its host has handed to the card already.

    It has a connection of its own, but a card sends in the order in which packets come to it. Those behind it in the
    card's queue are sent while it waits, so that the card carries as much.
    """
    return min(wiring.hosts[home, 6], max(state.queues[home, 0, 1] - now, 0.0)) if lane == 0 else 0.0


@inlined()
def _queued(state: State, home: int, way: int, lane: int, length: float, now: float) -> float:
    """Return when a parcel's turn at a card comes: before that of gradients and weights, if it is none of them.

    Packets of two connections take turns; that those somebody waits for go first is simpler, and the card carries as
    much. What enters the slower queue from now on comes so much later.
    """
    begin: float = max(now, state.queues[home, way, 0], state.queues[home, way, lane])
    if lane == 0 and state.queues[home, way, 1] > begin:
        state.queues[home, way, 1] += length
    state.queues[home, way, lane] = begin + length
    return begin


@inlined()
def _arrive(wiring: Wiring, state: State, events: Any, parcel: int, batch: int, now: float) -> None:
    target = wiring.target[parcel]
    if wiring.way[parcel] == BY_CARDS:
        home = wiring.home[target]
        _occupy(state, target, wiring.num_bytes[parcel] * wiring.hosts[home, 4] + wiring.hosts[home, 5], now)
    if wiring.later[parcel] == NOBODY:
        return
    for number in range(wiring.takers_at[parcel], wiring.takers_at[parcel + 1]):
        _satisfy(wiring, state, events, batch + wiring.later[parcel], wiring.takers[number], now)


@inlined()
def _occupy(state: State, part: int, length: float, now: float) -> None:
    state.free[part] = max(state.free[part], now) + length
