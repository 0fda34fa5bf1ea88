"""The processes of a run: who has which parts, what they tell each other, and how all of them end when one does.

Tensors between parts go by the transport. Here is what processes say beside it: through a store whether they are about
the same thing, which only goes at the start, for the store is lost with the host that has it; with their signs of life
that one has failed; and by a group of their own outputs, states and counts.

Nothing is unpickled but what torch calls weights: tensors, numbers, texts, and lists and dicts of them.
"""

import io
import itertools
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor
from torch._C._distributed_c10d import PrefixStore, ProcessGroupGloo, Store

from hyperplace.errors import TrainingError
from hyperplace.runtime.hosts.heartbeat import END, Heart
from hyperplace.runtime.hosts.patience import patiently

ABORT = "abort"  # the store's key for why a run did not begin
MOST_ENDS = 8  # of trainers that are still said
GAUGES = "gauges"  # the key under which processes tell what their parts have done so far
POLL_S = 0.05
START_S = 300.0  # how long the others may take until they call compile: each may first read its own data
NEVER = timedelta(days=365)  # gloo's own limit for a message; what hangs is found by the watch
ABORT_S = timedelta(milliseconds=1)
CLOCK_ROUNDS = 20
LOOK_S = 0.2
PATIENCE_S = 4.0  # before whoever waits for others says so
CONTROL_TAG = 2**31 - 1
HEAD_BYTES = 64  # the call and the length of what follows

_numbers = itertools.count()

T = TypeVar("T")


class Processes:
    """One of several processes, each with as many neighbouring parts.

    There are two gloo groups of its own for every trainer: what ends one breaks no other. gloo has one connection to
    each process of a group, on which everything waits its turn; in `bulk` go gradients and weights of copies, in
    `group` all that somebody waits for meanwhile, be it a few numbers of a batch norm. `members` are those that take
    part, by their first numbers, as their hearts have them; here they are numbered anew.
    """

    def __init__(
        self,
        num_parts: int,
        parts_each: int = 1,
        *,
        heart: Heart,
        store: Store,
        members: Sequence[int] | None = None,
        name: str | None = None,
    ) -> None:
        self.heart = heart
        self.members = tuple(range(heart.size) if members is None else members)
        self.number, self.size = self.members.index(heart.number), len(self.members)
        self._parts_each = parts_each
        first = self.number * parts_each
        self.parts = tuple(range(first, min(first + parts_each, num_parts)))
        self.name = str(next(_numbers)) if name is None else name  # the same in all
        self._store = PrefixStore(f"hyperplace/{self.name}", store)
        self.group: Any = None
        self.bulk: Any = None
        self.has_left = False
        self._is_over = False
        self._news = threading.Event()
        self._watch: threading.Thread | None = None
        self._call: tuple[str, float] | None = None  # what this process waits in for others, and since when
        self._broken = ""  # why nothing can be said any more: what comes next would be taken for something else

    def home(self, part: int) -> int:
        return part // self._parts_each

    def met(self, call: str, text: str) -> list[str]:
        """Return what all say in the store; goes while the run begins."""

        def said() -> list[str]:
            self._store.set(f"{call}/{self.number}", text)
            return [self._awaited(call, number) for number in range(self.size)]

        return self._watched(said)

    def connect(self) -> None:
        """Connect everybody with everybody."""
        number, size, store = self.number, self.size, self._store

        def both() -> tuple[Any, Any]:  # knows nothing of this: where somebody never comes, the thread stays
            group = ProcessGroupGloo(store, number, size, NEVER)
            return group, ProcessGroupGloo(PrefixStore("bulk", store), number, size, NEVER)

        self.group, self.bulk = self._watched(both)

    def _watched(self, work: Callable[[], T]) -> T:
        return self.heart.watched(work, self.fault)

    def _awaited(self, call: str, number: int) -> str:
        deadline = time.monotonic() + START_S
        while not self._store.check([key := f"{call}/{number}"]):
            if fault := self.fault():
                raise fault
            if time.monotonic() > deadline:
                raise TrainingError(f"rank {number} has not come to {call}() within {START_S:.0f} s")
            time.sleep(POLL_S)
        return self._store.get(key).decode()

    def told(self, call: str, text: str, limit_s: float) -> list[str]:
        self.heart.say(key := f"{self.name}/{call}", text)
        deadline = time.monotonic() + limit_s
        while not set(self.members) <= self.heart.said(key).keys():
            if fault := self.fault():
                raise fault
            if time.monotonic() > deadline:
                raise TrainingError(f"not all ranks have come to {call}() within {limit_s:.0f} s")
            time.sleep(POLL_S)
        said = self.heart.said(key)
        return [said[member] for member in self.members]

    def heard(self, key: str, text: str) -> list[str]:
        self.heart.say(own := f"{self.name}/{key}", text)
        said = self.heart.said(own)
        return [said.get(member, "") for member in self.members]

    def fault(self) -> TrainingError | None:
        """Return why the run has ended, in the words of whoever ended it first; nothing while it goes on."""
        for key in (f"{END}/{self.name}", END):
            if said := self.heart.said(key):
                # One's own come last: whoever ends because another has says so in its words.
                return TrainingError(min(said.items(), key=lambda one: one[0] == self.heart.number)[1])
        return self.heart.fault(self.members)

    def slow(self) -> list[str]:
        late = self.heart.slow().items()
        return [f"{self.heart.place_of(member)} took up to {seconds:.1f} s to answer" for member, seconds in late]

    def tell_end(self, reason: str) -> None:
        if not self.has_left:
            say_end(self.heart, self.name, reason)

    def leave(self) -> None:
        self.has_left = True
        with suppress(TrainingError):  # who was there first has closed the connection, or nothing can be said
            self.exchange("close", None)  # first of all: whoever makes another call is told so
            self._empty_bulk()
            self.exchange("close", None)  # when this is here, all else has arrived everywhere

    def _empty_bulk(self) -> None:
        """Wait for a byte of everybody that comes after all else."""
        pending = []
        for other in (number for number in range(self.size) if number != self.number):
            for move in (self.bulk.recv, self.bulk.send):
                byte = torch.zeros(1, dtype=torch.uint8)
                work = self._tried(other, lambda m=move, b=byte, o=other: m([b], o, CONTROL_TAG))  # type: ignore[misc]
                pending.append((other, work, byte))
        self._end_send("close", pending)

    def watch(self, look: Callable[[], None]) -> None:
        """Look every now and then, and when there is news, until this process has left."""
        self.heart.listen(self._news.set)
        self.heart.note_trainer()
        self._watch = threading.Thread(target=self._watching, args=(look,), name="hyperplace lookout", daemon=True)
        self._watch.start()

    def _watching(self, look: Callable[[], None]) -> None:
        while not self._is_over:
            self._news.wait(LOOK_S)
            self._news.clear()
            if not self._is_over:
                look()

    def end(self, limit_s: float) -> None:
        """Give back the connections and the thread."""
        self.has_left = self._is_over = True
        self.heart.unlisten(self._news.set)
        self._news.set()
        if self._watch:
            self.heart.note_trainer(has_ended=True)
            if self._watch is not threading.current_thread():
                self._watch.join(limit_s)
            self._watch = None
        for key in ("wait", GAUGES):
            self.heart.say(f"{self.name}/{key}", "")
        self.group = self.bulk = None

    def all_waits(self, wait: str) -> tuple[str, ...]:
        """Say what this process waits for, and return what all say; nothing if one does not wait."""
        if self._call and time.monotonic() - self._call[1] > PATIENCE_S:
            wait = f"waits for the others in {self._call[0]}()"
        self.heart.say(key := f"{self.name}/wait", wait)
        said = self.heart.said(key)
        return tuple(said[member] for member in self.members) if set(self.members) <= said.keys() else ()

    def is_calm(self) -> bool:
        """Say whether the others have answered in time of late; else what was sent may still be on its way."""
        return self.heart.is_calm(self.members)

    def clock_ahead_ns(self) -> int:
        if self.number == 0:
            for number in range(1, self.size):
                for _ in range(CLOCK_ROUNDS):
                    self.share("timeline", None, number)
                    self._send("timeline", time.perf_counter_ns(), [number])
            return 0
        rounds = [self._asked_clock() for _ in range(CLOCK_ROUNDS)]
        return min(rounds)[1]  # by the quickest answer: whatever delays one is in its error

    def _asked_clock(self) -> tuple[int, int]:
        """Return how long the first process took to answer, and by how much its clock is behind."""
        begin = time.perf_counter_ns()
        self._send("timeline", None, [0])
        told = self._receive("timeline", 0)
        end = time.perf_counter_ns()
        return end - begin, (begin + end) // 2 - told

    def abort(self) -> None:
        """Break all connections of the groups: whoever waits for a message, here or there, is told at once.

        gloo has no other way: an operation that runs out of time closes every pair of its group.
        """
        other = (self.number + 1) % self.size
        for group in (self.group, self.bulk):
            if group is not None and self.size > 1:
                with suppress(RuntimeError):
                    group.recv([torch.empty(1)], other, CONTROL_TAG - 1).wait(ABORT_S)

    def lost(self, number: int) -> TrainingError:
        """Return why a connection to a process may have broken."""
        return self.reason(f"{self.heart.place_of(self.members[number])} has closed its connection without a word")

    def reason(self, otherwise: str) -> TrainingError:
        """Return who is lost, or what one has said, once a connection is gone; where nothing is heard, other words."""
        found = None if self.has_left else self.heart.awaited(self.fault)
        return found or TrainingError(otherwise)

    def gather(self, call: str, content: Any) -> list[Any]:
        if self.number:
            self._send(call, content, [0])
            return []
        return [content, *(self._receive(call, number) for number in range(1, self.size))]

    def exchange(self, call: str, content: Any) -> list[Any]:
        others = [number for number in range(self.size) if number != self.number]
        pending = self._begin_send(call, content, others)
        found = [content if number == self.number else self._receive(call, number) for number in range(self.size)]
        self._end_send(call, pending)
        return found

    def share(self, call: str, content: Any, source: int) -> Any:
        if self.number != source:
            return self._receive(call, source)
        self._send(call, content, [number for number in range(self.size) if number != source])
        return content

    def _send(self, call: str, content: Any, targets: Sequence[int]) -> None:
        self._end_send(call, self._begin_send(call, content, targets))

    def _begin_send(self, call: str, content: Any, targets: Sequence[int]) -> list[tuple[int, Any, Tensor]]:
        buffer = io.BytesIO()
        torch.save(content, buffer)
        body = torch.frombuffer(bytearray(buffer.getvalue()), dtype=torch.uint8)
        head = torch.frombuffer(bytearray(f"{call} {len(body)}".encode().ljust(HEAD_BYTES)), dtype=torch.uint8)
        return [
            (target, self._tried(target, lambda t=target, p=piece: self._isend(p, t)), piece)  # type: ignore[misc]
            for target in targets
            for piece in (head, body)
        ]

    def _isend(self, tensor: Tensor, target: int) -> Any:
        return self.group.send([tensor], target, CONTROL_TAG)

    def _irecv(self, buffer: Tensor, source: int, tag: int) -> Any:
        return self.group.recv([buffer], source, tag)

    def _end_send(self, call: str, pending: Sequence[tuple[int, Any, Tensor]]) -> None:
        for target, work, _ in pending:
            self._call = (call, time.monotonic())
            self._tried(target, lambda w=work: self._waited(w))  # type: ignore[misc]

    def _receive(self, call: str, source: int) -> Any:
        self._call = (call, time.monotonic())
        theirs, length = self._bytes(HEAD_BYTES, source).decode().split()
        if theirs != call:
            reason = (
                f"rank {source} calls {theirs}() while rank {self.number} calls {call}(); every rank must make the "
                "same calls in the same order"
            )
            self.tell_end(reason)
            self._broken = reason
            raise TrainingError(reason)
        return torch.load(io.BytesIO(self._bytes(int(length), source)), weights_only=True)

    def _bytes(self, length: int, source: int) -> bytes:
        buffer = torch.empty(length, dtype=torch.uint8)
        self._tried(source, lambda: self._waited(self._irecv(buffer, source, CONTROL_TAG)))
        return buffer.numpy().tobytes()

    def _waited(self, work: Any) -> None:
        """Wait until something is sent or received, or the run has ended; while all part, until somebody is lost."""
        patiently(work.wait, lambda: self.heart.fault(self.members) if self.has_left else self.fault())

    def _tried(self, number: int, operation: Callable[[], Any]) -> Any:
        if self._broken:
            raise TrainingError(self._broken)
        try:
            return operation()
        except RuntimeError:
            raise self.lost(number) from None
        finally:
            self._call = None


def default_store() -> Store:
    """Return the store that all processes have in common."""
    store: Store = dist.distributed_c10d._get_default_store()
    return store


def say_end(heart: Heart, name: str, reason: str) -> None:
    """Let all hear why a trainer has ended, unless somebody has said so before; of older ones no more is said."""
    key = f"{END}/{name}"
    if not heart.said(key):
        heart.say(key, reason)
        for old in heart.own_keys(f"{END}/")[:-MOST_ENDS]:
            heart.say(old, "")
