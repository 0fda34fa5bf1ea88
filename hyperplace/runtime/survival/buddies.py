"""Every part's shard, copied after every so many updates and streamed to a process on another host: its buddy.

A cut is all shards after the same mini-batch. Parts come to it at different times and go on without waiting: weights,
optimizer and so on are copied right after the part's own update, and a buffer as the last mini-batch of the cut left
it, be others under way already. So a cut is, bit for bit, what a checkpoint at that mini-batch would hold.

    process 0 --- its shards ---> 1 --- its shards ---> 2 ---> ... ---> 0

A process keeps its own cuts and those of the one before it, until a newer one is whole everywhere. Streams have
connections of their own, but a card carries all: so they go in pieces, in the gaps that the training leaves.
"""

import io
import queue
import socket
import struct
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor

from hyperplace.runtime.checkpoints.shards import Shard, shard_of_rank
from hyperplace.runtime.hosts.backlog import Backlog
from hyperplace.runtime.hosts.processes import Processes
from hyperplace.runtime.rank import Rank
from hyperplace.runtime.transport import Stopped

MOST_KEPT = 3  # cuts of a process that are not whole everywhere; then its parts wait
WAIT_S = 0.2  # between looks whether there is room, or the run has ended
HEAD = struct.Struct(">QQQQ")  # the cut's two numbers, the bytes of what holds the tensors, and theirs
ALIGNED = 16  # bytes, at which a tensor of any dtype may begin
CONNECT_S = 30.0
# A card is shared fairly between connections, and a message that parts wait for would take twice as long beside a
# stream. So a piece waits until none is under way, as long as the stream is ahead of the time it has: there may always
# be one.
PIECE_BYTES, LOOK_S = 2**18, 0.002
SPREAD = 0.7  # of the time between two cuts, which a stream may take
NOTE = "#tensor"  # instead of one: its bytes, dtype and shape

Cut = tuple[int, int]  # how often weights were loaded before, and mini-batches done


class Cuts:
    """The copies of one part, taken in its own thread."""

    def __init__(self, rank: Rank, every: int, keep: Callable[[Cut, int, Shard], None], *, is_sync: bool) -> None:
        self._rank, self._every, self._keep, self._is_sync = rank, every, keep, is_sync
        self.loads = 0
        self._buffers: dict[int, dict[str, Tensor]] = {}  # by mini-batches done, as the last of these left them
        self._versions: dict[str, int] = {}

    def before(self, batch: int) -> None:
        """Preserve what a mini-batch may write to, for cuts before it that are still to come."""
        buffers = self._rank.weights.buffers
        if self._is_sync or not buffers:  # with one update for all there is nothing under way at a cut
            return
        first = self._rank.num_done // self._every * self._every + self._every
        for count in range(first, batch + 1, self._every):
            known = self._buffers.setdefault(count, {})
            known |= {name: one.clone() for name, one in buffers.items() if name not in known}
        self._versions = {name: one._version for name, one in buffers.items()}

    def after(self, batch: int) -> None:
        """Preserve what the last mini-batch of a cut has written to."""
        if self._is_sync or (batch + 1) % self._every:
            return
        known = self._buffers.setdefault(batch + 1, {})
        for name, one in self._rank.weights.buffers.items():
            if one._version != self._versions[name]:
                known[name] = one.clone()

    def updated(self) -> None:
        """Take a copy, if it is time, right after an update."""
        if self._rank.num_done % self._every == 0:
            self.take()

    def take(self) -> None:
        """Take a copy of what the part has now."""
        count, weights = self._rank.num_done, self._rank.weights
        now = {**weights.now(), **self._buffers.pop(count, {})}
        held = {name: now[name] for name in self._rank.table.held}
        self._keep((self.loads, count), self._rank.number, _copied(shard_of_rank(self._rank, held)))


class Buddies:
    """What this process keeps for itself and for the one before it, and the streams to and from them."""

    def __init__(self, processes: Processes, ranks: Sequence[Rank], every: int, *, is_sync: bool) -> None:
        self._processes, self._every, self._transport = processes, every, ranks[0].transport
        self._key = f"{processes.name}/cut"
        self._taken, self._every_s = time.monotonic(), 0.0  # the last cut, and how long after the one before
        self._own: dict[Cut, dict[int, Shard]] = {}
        self._ward: dict[Cut, tuple[bytes, Tensor]] = {}
        self._num_here = len(ranks)
        self._room = threading.Condition()
        self._is_over = False
        self.sent_bytes = self.num_sent = 0
        self.copy_bytes = 0  # of the last one
        self._queue: queue.SimpleQueue[tuple[Cut, list[Shard]] | None] = queue.SimpleQueue()
        self._sockets = self._connected()
        for work, one in zip((self._send, self._receive), self._sockets, strict=True):
            threading.Thread(target=work, args=(one,), name="hyperplace buddies", daemon=True).start()
        processes.heart.listen(self._wake)
        self.cuts = [Cuts(rank, every, self._keep, is_sync=is_sync) for rank in ranks]
        for rank, cuts in zip(ranks, self.cuts, strict=True):
            rank.segments.cuts = cuts

    def _connected(self) -> tuple[socket.socket, socket.socket]:
        """Return the connections to the process after this one, and from the one before."""
        own = self._processes
        heart, after = own.heart, own.members[(own.number + 1) % own.size]
        home = heart.home_of(heart.number)
        family = socket.AF_INET6 if ":" in home else socket.AF_INET
        with socket.create_server(("", 0), family=family) as server:
            server.settimeout(CONNECT_S)
            ports = own.exchange("survive", server.getsockname()[1])
            try:
                to = socket.create_connection((heart.home_of(after), ports[(own.number + 1) % own.size]), CONNECT_S)
                came, _ = server.accept()
            except OSError:  # it, or the one before, is lost in turn
                raise own.lost((own.number + 1) % own.size) from None
        for one in (to, came):
            one.settimeout(None)
        to.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, PIECE_BYTES)  # what lies there is sent, whoever waits
        return to, came

    def note_loads(self, loads: int) -> None:
        """Say how often weights were loaded; nothing may be under way."""
        for cuts in self.cuts:
            cuts.loads = loads

    def kept(self) -> tuple[list[Cut], list[Cut]]:
        """Return the cuts that this process has of its own parts, all of them, and of its ward's."""
        return [cut for cut, shards in self._own.items() if len(shards) == self._num_here], list(self._ward)

    def own_shards(self, cut: Cut) -> list[Shard]:
        return list(self._own[cut].values())

    def ward_shards(self, cut: Cut) -> list[Shard]:
        return unpacked(*self._ward[cut])

    @property
    def stable(self) -> Cut:
        """The newest cut that is known to be whole everywhere; (0, -1) before the first."""
        said = self._processes.heart.said(self._key)
        known = [_parsed(said[member]) for member in self._processes.members if member in said]
        return min(known) if len(known) == self._processes.size else (0, -1)

    def _keep(self, cut: Cut, part: int, shard: Shard) -> None:
        with self._room:
            while cut not in self._own and len(self._own) >= MOST_KEPT and not self._is_over:
                self._forget()
                self._room.wait(WAIT_S)
                if self._processes.fault() or self._processes.has_left:
                    raise Stopped
            shards = self._own.setdefault(cut, {})
            shards[part] = shard
        if len(shards) == self._num_here:
            now = time.monotonic()
            self._taken, self._every_s = now, now - self._taken
            self._queue.put((cut, list(shards.values())))

    def _forget(self) -> None:
        """Drop what nobody will go back to."""
        stable = self.stable
        for kept in (self._own, self._ward):
            for cut in [cut for cut in list(kept) if cut < stable]:
                kept.pop(cut, None)

    def _wake(self) -> None:
        with self._room:
            self._forget()
            self._room.notify_all()

    def _send(self, to: socket.socket) -> None:
        while (one := self._queue.get()) is not None:
            cut, shards = one
            head, tensors, num_bytes = packed(shards)
            with suppress(OSError):  # whoever is lost is known by its signs of life
                to.sendall(HEAD.pack(*cut, len(head), num_bytes) + head)
                headway, others = Headway(num_bytes, SPREAD * self._every_s), Backlog(to)
                has_room = partial(self._has_room, others)
                for tensor in tensors:
                    stream(to, tensor.numpy().data, headway, has_room=has_room)
            self.copy_bytes = HEAD.size + len(head) + num_bytes
            self.sent_bytes += self.copy_bytes
            self.num_sent += 1

    def _has_room(self, others: Backlog) -> bool:
        return self._is_over or (self._transport.has_sent_all() and others.is_empty)

    def _receive(self, came: socket.socket) -> None:
        with suppress(OSError):
            while not self._is_over:
                loads, count, head_bytes, num_bytes = HEAD.unpack(_read(came, HEAD.size).numpy().tobytes())
                head = _read(came, head_bytes).numpy().tobytes()
                self._ward[loads, count] = (head, _read(came, num_bytes))
                self._processes.heart.say(self._key, f"{loads},{count}")
                self._wake()

    def stop(self) -> None:
        """End the streams; what is kept stays."""
        self._is_over = True
        self._processes.heart.unlisten(self._wake)
        self._processes.heart.say(self._key, "")
        self._queue.put(None)
        for one in self._sockets:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
        with self._room:
            self._room.notify_all()


@dataclass
class Headway:
    """How far a stream is, and how far it should be."""

    num_bytes: int
    seconds: float
    sent: int = 0
    begin: float = field(default_factory=time.monotonic)

    @property
    def is_ahead(self) -> bool:
        return (time.monotonic() - self.begin) * self.num_bytes < self.sent * self.seconds


def stream(to: socket.socket, data: memoryview, headway: Headway, *, has_room: Callable[[], bool]) -> None:
    """Send in pieces, each when the card has room for it, or when it is time."""
    for begin in range(0, len(data), PIECE_BYTES):
        while headway.is_ahead and not has_room():
            time.sleep(LOOK_S)
        piece = data[begin : begin + PIECE_BYTES]
        to.sendall(piece)
        headway.sent += len(piece)


def _parsed(text: str) -> Cut:
    loads, count = map(int, text.split(","))
    return loads, count


def _read(came: socket.socket, num_bytes: int) -> Tensor:
    """Return so many bytes of a stream; raise OSError at its end."""
    found = torch.empty(num_bytes, dtype=torch.uint8)
    view, at = found.numpy().data, 0
    while at < num_bytes:
        if not (got := came.recv_into(view[at:])):
            raise ConnectionResetError
        at += got
    return found


def packed(shards: Sequence[Shard]) -> tuple[bytes, list[Tensor], int]:
    """Return shards as what is to be sent: all but the tensors, the bytes of these, and how many."""
    tensors: list[Tensor] = []
    file = io.BytesIO()
    torch.save(_without(list(shards), tensors), file)
    return file.getvalue(), tensors, sum(tensor.numel() for tensor in tensors)


def unpacked(head: bytes, body: Tensor) -> list[Shard]:
    """Return the shards that were packed."""
    found: list[Shard] = _with(torch.load(io.BytesIO(head), weights_only=True), Remains(body))
    return found


def _without(value: Any, tensors: list[Tensor]) -> Any:
    """Return a value with a note instead of every tensor, whose bytes are added to the list."""
    if isinstance(value, Tensor):
        flat = value.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
        tensors += [flat, torch.zeros(-flat.numel() % ALIGNED, dtype=torch.uint8)]
        return {NOTE: [flat.numel(), str(value.dtype).removeprefix("torch."), list(value.shape)]}
    if isinstance(value, dict):
        return {key: _without(one, tensors) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_without(one, tensors) for one in value)
    return value


def _with(value: Any, rest: "Remains") -> Any:
    """Return the value with its tensors, which come in the same order."""
    if isinstance(value, dict):
        if NOTE in value:
            num_bytes, dtype, shape = value[NOTE]
            return rest.take(num_bytes).clone().view(getattr(torch, dtype)).view(shape)
        return {key: _with(one, rest) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_with(one, rest) for one in value)
    return value


class Remains:
    """What is left of a stream of tensors."""

    def __init__(self, body: Tensor) -> None:
        self._body, self._at = body, 0

    def take(self, num_bytes: int) -> Tensor:
        begin, self._at = self._at, self._at + num_bytes + -num_bytes % ALIGNED
        return self._body[begin : begin + num_bytes]


def _copied(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.detach().to("cpu", copy=True)
    if isinstance(value, dict):
        return {key: _copied(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_copied(one) for one in value)
    return value
