"""Run parts event by event without computing anything: when does every action begin and end, what is on which card.

Every part does its actions in order, each as soon as what it needs is done and has arrived. What one host sends another
waits in a queue of the sender's card, then in one of the receiver's; a card sends and receives at once. Whatever a
device does for the network is time that it does not compute in.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from heapq import heappop, heappush

from hyperplace.errors import UsageError
from hyperplace.values.cluster import Cluster
from hyperplace.values.derived.actions import Needs, Node, Parcel
from hyperplace.values.derived.traffic import Card
from hyperplace.values.prediction import IN, OUT
from hyperplace.values.schedule import NORM, UPDATE

Done = tuple[int, Node]  # a mini-batch's action
Spans = dict[Done, tuple[float, float]]  # when it begins and ends
Weight = tuple[int, str]  # its owner and attribute


@dataclass(frozen=True)
class Tasks:
    """What is to be simulated: the actions of a mini-batch, what they wait for and send, and in which order each part
    does which of which mini-batch.

    `users`: who sees a weight that is lent on its owner's part, and `delays`: how many mini-batches later, there and
    elsewhere.
    """

    needs: Needs
    work: Mapping[Node, float]
    parcels: Sequence[Parcel]
    todo: Sequence[Sequence[Done]]
    delays: Mapping[Weight, int] = field(default_factory=dict)
    users: Mapping[Weight, set[Node]] = field(default_factory=dict)
    adds_up: int = 1  # micro-batches, of which the last brings the gradients of copies


@dataclass
class Outcome:
    """When everything happened."""

    spans: Spans = field(default_factory=dict)
    cards: dict[Card, float] = field(default_factory=lambda: defaultdict(float))  # how long each was busy
    end: float = 0.0


@dataclass
class _Part:
    todo: Sequence[Done]
    place: int = 0
    is_busy: bool = False
    free: float = 0.0  # when what it computes or does for the network is done


def run(tasks: Tasks, cluster: Cluster | None = None) -> Outcome:
    """Return when all that is to be done happens; raise UsageError if parts wait for each other for ever."""
    return _Engine(tasks, cluster).run()


class _Engine:
    def __init__(self, tasks: Tasks, cluster: Cluster | None) -> None:
        self._tasks, self._cluster = tasks, cluster
        self._parts = [_Part(todo) for todo in tasks.todo]
        self._events: list[tuple[float, int, Callable[[float], None]]] = []
        self._number = 0  # events of the same time happen in the order in which they were foreseen
        self._queues: dict[Card, float] = defaultdict(float)  # until when they are full
        self._missing: dict[Done, int] = {}
        self._outcome = Outcome()
        self._followers: dict[Node, list[tuple[Node, int]]] = defaultdict(list)  # who waits, of which later mini-batch
        self._waits: Counter[Node] = Counter()  # for what of the own mini-batch
        self._delays: dict[Node, list[int]] = defaultdict(list)  # for what of the mini-batch so many before
        self._parcels: dict[Node, list[Parcel]] = defaultdict(list)
        self._connect()

    def _connect(self) -> None:
        tasks = self._tasks
        for node, needs in tasks.needs.items():
            self._waits[node] += len(needs)
            for need in needs:
                self._followers[need].append((node, 0))
        for weight, users in tasks.users.items():
            for user in users:
                self._delays[user].append(tasks.delays[weight])
                self._followers[weight[0], UPDATE, 0].append((user, tasks.delays[weight]))
        for parcel in tasks.parcels:
            self._parcels[parcel.maker].append(parcel)
            for taker in parcel.takers:
                if parcel.weight is None:
                    self._waits[taker] += 1
                elif parcel.weight in tasks.delays:
                    self._delays[taker].append(tasks.delays[parcel.weight])

    def run(self) -> Outcome:
        for part in self._parts:
            self._try(part, 0.0)
        while self._events:
            now, _, happen = heappop(self._events)
            happen(now)
            self._outcome.end = max(self._outcome.end, now)
        stuck = [part.todo[part.place] for part in self._parts if part.place < len(part.todo)]
        if stuck:
            who = ", ".join(f"part {node[0]} before {node[1]}{node[2]} of mini-batch {batch}" for batch, node in stuck)
            raise UsageError(f"the schedule never ends: {who} wait for each other")
        return self._outcome

    def _at(self, time: float, happen: Callable[[float], None]) -> None:
        self._number += 1
        heappush(self._events, (time, self._number, happen))

    def _try(self, part: _Part, now: float) -> None:
        """Begin a part's next action, if it can."""
        if part.is_busy or part.place == len(part.todo) or self._count(part.todo[part.place]):
            return
        if part.free > now:
            self._at(part.free, partial(self._try, part))
            return
        batch, node = done = part.todo[part.place]
        work = self._tasks.work[node]
        self._outcome.spans[done] = now, now + work
        part.is_busy, part.free = True, now + work
        self._at(now + work, partial(self._finish, part, done))
        for parcel in self._parcels[node]:
            if parcel.left:
                self._at(now + work * (1 - parcel.left), partial(self._send, parcel, batch))

    def _count(self, done: Done) -> int:
        """Return for how much an action still waits."""
        if done not in self._missing:
            batch, node = done
            self._missing[done] = self._waits[node] + sum(batch >= delay for delay in self._delays[node])
        return self._missing[done]

    def _finish(self, part: _Part, done: Done, now: float) -> None:
        batch, node = done
        part.is_busy = False
        part.place += 1
        for parcel in self._parcels[node]:
            if not parcel.left:
                self._send(parcel, batch, now)
        for follower, later in self._followers[node]:
            self._satisfy((batch + later, follower), now)
        self._try(part, now)

    def _satisfy(self, done: Done, now: float) -> None:
        self._missing[done] = self._count(done) - 1
        self._try(self._parts[done[1][0]], now)

    def _send(self, parcel: Parcel, batch: int, now: float) -> None:
        is_gradient = parcel.takers[0][1] in (UPDATE, NORM)
        if is_gradient and (batch + 1) % self._tasks.adds_up:
            return
        source, target = parcel.maker[0], parcel.takers[0][0]
        if self._cluster is None:
            self._arrive(parcel, batch, now)
        elif self._cluster.home[source] == self._cluster.home[target]:
            self._at(now + self._cluster.lag(source, target, parcel.num_bytes), partial(self._arrive, parcel, batch))
        else:
            self._leave(self._cluster, parcel, batch, now)

    def _leave(self, cluster: Cluster, parcel: Parcel, batch: int, now: float) -> None:
        """Put a parcel into the queue of its sender's card."""
        source = parcel.maker[0]
        host = cluster.hosts[cluster.home[source]]
        begin = max(now, self._queues[cluster.home[source], OUT])
        end = begin + parcel.num_bytes / host.out_rate
        self._queues[cluster.home[source], OUT] = end
        self._outcome.cards[cluster.home[source], OUT] += end - begin
        self._occupy(source, parcel.num_bytes * host.send_s_per_byte, now)
        self._at(begin + host.latency_s, partial(self._enter, cluster, parcel, batch, end + host.latency_s))

    def _enter(self, cluster: Cluster, parcel: Parcel, batch: int, sent: float, now: float) -> None:
        """Put a parcel, all of which will be there when it is sent, into the queue of its receiver's card."""
        home = cluster.home[parcel.takers[0][0]]
        length = parcel.num_bytes / cluster.hosts[home].in_rate
        end = max(max(now, self._queues[home, IN]) + length, sent)
        self._queues[home, IN] = end
        self._outcome.cards[home, IN] += length
        self._at(end, partial(self._arrive, parcel, batch))

    def _arrive(self, parcel: Parcel, batch: int, now: float) -> None:
        target = parcel.takers[0][0]
        if self._cluster is not None and self._cluster.home[target] != self._cluster.home[parcel.maker[0]]:
            host = self._cluster.hosts[self._cluster.home[target]]
            self._occupy(target, parcel.num_bytes * host.receive_s_per_byte, now)
        if parcel.weight is not None and parcel.weight not in self._tasks.delays:
            return  # who uses it is beyond what is simulated
        later = 0 if parcel.weight is None else self._tasks.delays[parcel.weight]
        for taker in parcel.takers:
            self._satisfy((batch + later, taker), now)

    def _occupy(self, part: int, length: float, now: float) -> None:
        self._parts[part].free = max(self._parts[part].free, now) + length
