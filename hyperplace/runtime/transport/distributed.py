"""Messages between processes by torch.distributed's gloo, and between parts of one process as threads do it.

Every message's shape is known beforehand, so no header is sent: its tag is its number, and mini-batches follow each
other under it in their order. gloo moves nothing before the receiver has a buffer for it; so all that a command will
bring is asked for when the command is given, which is as many mini-batches ahead as may be under way.

The rows of a mini-batch are part of its tags. gloo takes a shorter message without a word and dies of a longer one, so
processes that were given different rows must not find each other's messages; the watch then says why all wait.
"""

import math
import queue
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from hyperplace.runtime.commands import Batch, Command, Predict, Tick, Update
from hyperplace.runtime.hosts.patience import patiently
from hyperplace.runtime.hosts.processes import PATIENCE_S, Processes
from hyperplace.runtime.hosts.world import World
from hyperplace.runtime.transport import (
    BACKWARD,
    FORWARD,
    GRADIENTS,
    LOSSES,
    NORMS,
    WEIGHTS,
    Key,
    Moved,
    Stopped,
    Transport,
)
from hyperplace.runtime.transport.buffers import Buffers
from hyperplace.runtime.transport.threads import Threads
from hyperplace.values.loans import Loan, find_loans, updaters
from hyperplace.values.program import ITEM_BYTES, Message, Output, Program

JOIN_S = 2.0  # for threads that have been told to end
# Once connections are broken, whoever waits for a message is told within milliseconds. Unless the message was just
# coming when its sender fell silent: gloo tells those whose message has not begun, and nobody else, ever.
TOLD_S = 0.5
SLOWEST = 1e6  # bytes a second: whoever still has some to send at this rate does not wait in vain
ROWS = 4096  # tags of a message: rows are told apart up to here
DTYPES = tuple(getattr(torch, name) for name in sorted(ITEM_BYTES))
# A gradient that is none: bits of a NaN that no arithmetic makes, instead of the first bytes of the tensor.
NOTHING = bytes.fromhex("f5ff") * 8


@dataclass(frozen=True)
class Expected:
    """A message that will come."""

    key: Key
    shape: tuple[int, ...]
    dtype: torch.dtype
    is_typed: bool = False  # its dtype is not the planned one, and comes before it


@dataclass
class Arrived:
    """What of all that was sent is no longer under way; one thread writes it."""

    num_messages: int = 0
    num_bytes: int = 0


class Network:
    """The transport of one process: threads between its own parts, gloo to those of others."""

    def __init__(self, program: Program, processes: Processes, *, clips: bool, updates_at_once: bool) -> None:
        self._program, self._processes, self._updates_at_once = program, processes, updates_at_once
        self._threads = Threads(processes.parts)
        self._loans = find_loans(program.parts)
        self._norms = sorted(updaters(program.parts, self._loans)) if clips else []
        self._tag_of = _tags(program, self._loans)
        self._counts: dict[bool, dict[int, Moved]] = {  # planned or not, by sender: no lock
            planned: {part: Counter() for part in processes.parts} for planned in (True, False)
        }
        self._posted: dict[Key, tuple[Any, Tensor, Expected]] = {}
        self._buffers = Buffers()
        self._rows: dict[int, int] = {}  # of mini-batches under way
        self._typed: set[int] = set()  # mini-batches under way whose dtypes are told
        self._waits: dict[Key, float] = {}  # what is waited for here, since when
        self._aborted = math.inf  # when
        self._version = 0  # of the weights: updates that were announced
        self._foreseen = -1  # the mini-batch whose update was announced with it
        self._loss_home = processes.home(loss_part(program))
        self._losses: dict[int, Tensor] = {}
        self._begun = dict.fromkeys(processes.parts, 0)  # bytes that each part has given to gloo: no lock
        self._arrived = Arrived()
        self._pending: queue.SimpleQueue[tuple[Any, Tensor] | None] = queue.SimpleQueue()
        words = self._pending, self._arrived
        self._reaper = threading.Thread(target=_reap, args=words, name="hyperplace sends", daemon=True)
        self._reaper.start()

    @property
    def is_stopped(self) -> bool:
        return self._threads.is_stopped

    def _is_here(self, part: int) -> bool:
        return part in self._processes.parts

    def announce(self, command: Command) -> None:
        """Ask the other processes for all that a command will bring."""
        if self.is_stopped:
            return
        if isinstance(command, Tick | Predict) and command.batch is not None:
            self._rows[command.batch.number] = command.batch.num_rows
            if command.batch.autocasts:
                self._typed.add(command.batch.number)
        with suppress(Stopped):  # meanwhile: nothing will come, and whoever waits for the command is told why
            for expected in self._expected(command):
                self._post(expected)

    def _expected(self, command: Command) -> Iterator[Expected]:
        match command:
            case Tick(batch=Batch() as batch):
                yield from self._passes(batch, is_learning=True)
                if self._updates_at_once:
                    yield from self._update(batch.number)
                elif batch.last is not None and batch.last != self._foreseen:
                    # Now, and not with the command: what says that somebody is ready to receive takes its turn among
                    # all else that goes to the sender, be that a whole model's gradients.
                    self._foreseen = batch.last
                    yield from self._update(batch.last)
            case Predict(batch=batch):
                yield from self._passes(batch, is_learning=False)
            case Update(batch=number) if number != self._foreseen:
                yield from self._update(number)

    def _passes(self, batch: Batch, *, is_learning: bool) -> Iterator[Expected]:
        for message in self._program.messages:
            if self._is_here(message.target) and not self._is_here(message.source):
                key = Key(batch.number, FORWARD, message.number, message.source, message.target)
                yield self._message(key, message, batch)
            elif is_learning and message.learns and self._is_here(message.source) and not self._is_here(message.target):
                key = Key(batch.number, BACKWARD, message.number, message.target, message.source)
                yield self._message(key, message, batch)
        if is_learning and self._processes.number != self._loss_home:
            yield Expected(self._loss_key(batch.number, self._processes.number), (2,), torch.float64)

    def _message(self, key: Key, message: Message, batch: Batch) -> Expected:
        shape = message.sizes(batch.num_rows, self._program.batch)
        is_typed = bool(batch.autocasts) and 0 not in shape  # of nothing not even a dtype is sent
        return Expected(key, shape, getattr(torch, message.dtype), is_typed)

    def _update(self, batch: int) -> Iterator[Expected]:
        self._version += 1
        for loan in self._loans:
            piece = self._program.parts[loan.borrower].weights[loan.copy]
            sizes, dtype = piece.sizes, getattr(torch, piece.dtype)
            if self._is_here(loan.peer) and not self._is_here(loan.borrower):
                yield Expected(Key(batch, GRADIENTS, loan.copy, loan.borrower, loan.peer), sizes, dtype)
            elif self._is_here(loan.borrower) and not self._is_here(loan.peer):
                yield Expected(Key(self._version, WEIGHTS, loan.copy, loan.peer, loan.borrower), sizes, dtype)
        for source in self._norms:
            for target in self._norms:
                if self._is_here(target) and not self._is_here(source):
                    yield Expected(Key(batch, NORMS, "norm", source, target), (), torch.float64)

    def _post(self, expected: Expected) -> None:
        key = expected.key
        shape, dtype = ((1,), torch.int64) if expected.is_typed else (expected.shape, expected.dtype)
        buffer = self._buffers.take(shape, dtype)
        self._posted[key] = (self._irecv(buffer, key, expected.is_typed), buffer, expected)

    def _irecv(self, buffer: Tensor, key: Key, is_head: bool) -> Any:
        if not buffer.numel():  # nothing travels
            return None
        source = self._processes.home(key.source)
        return self._tried(source, lambda: self._group(key).recv([_flat(buffer)], source, self._tag(key, is_head)))

    def _group(self, key: Key) -> Any:
        """Return whose connections a message goes by: what nobody waits for at once may not be in others' way."""
        return self._processes.bulk if key.way in (GRADIENTS, WEIGHTS) else self._processes.group

    def _tag(self, key: Key, is_head: bool = False) -> int:
        number = 2 * self._tag_of[key.way, key.item, key.source, key.target] + is_head
        follows_rows = key.way in (FORWARD, BACKWARD)
        return number * ROWS + (self._rows[key.batch] % ROWS if follows_rows else 0)

    def send(self, key: Key, tensor: Tensor | None, *, like: Tensor | None = None, planned: bool = True) -> None:
        if self._is_here(key.target):
            self._threads.send(key, tensor, like=like, planned=planned)
            return
        sized = tensor if like is None else like
        assert sized is not None
        counted = self._counts[planned][key.source]
        counted[key.way, key.source, key.target] += sized.numel() * sized.element_size()
        if not sized.numel():
            return
        if key.way in (FORWARD, BACKWARD) and key.batch in self._typed:
            dtype = sized.dtype if tensor is None else tensor.dtype
            self._isend(key, torch.tensor([DTYPES.index(dtype)]), is_head=True)
        self._isend(key, _nothing(sized) if tensor is None else tensor.detach().to("cpu"))

    def _isend(self, key: Key, tensor: Tensor, *, is_head: bool = False) -> None:
        if self.is_stopped:
            raise Stopped
        target = self._processes.home(key.target)
        flat = _flat(tensor)
        work = self._tried(target, lambda: self._group(key).send([flat], target, self._tag(key, is_head)))
        self._begun[key.source] += flat.numel()
        self._pending.put((work, flat))

    def receive(self, key: Key) -> Tensor | None:
        if self._is_here(key.source):
            return self._threads.receive(key)
        work, buffer, expected = self._posted.pop(key)
        self._waits[key] = time.monotonic()
        self._wait(work, key)
        if expected.is_typed:
            buffer = torch.empty(expected.shape, dtype=DTYPES[int(buffer)])
            self._wait(self._irecv(buffer, key, False), key)
        del self._waits[key]
        return None if key.way in (BACKWARD, GRADIENTS) and _is_nothing(buffer) else buffer

    def waits(self) -> str:
        """Say what a part here has waited for longer than usual; nothing if none does.

        A slow network is no reason to give up: while there are bytes to send, others may wait for just these. How many
        messages have gone is said too, so that whoever compares what all wait for sees whether anything still moves.
        """
        under_way = sum(self._begun.values()) - self._arrived.num_bytes
        begun = time.monotonic() - PATIENCE_S - under_way / SLOWEST
        for key, since in list(self._waits.items()):
            if since < begun:
                rows = f" of {self._rows[key.batch]} rows" if key.batch in self._rows else ""
                what = f"{key.way} {key.item} from part {key.source}, mini-batch {key.batch}{rows}"
                return f"waits for {what}, with {self._arrived.num_messages} messages sent"
        return ""

    def _wait(self, work: Any, key: Key) -> None:
        if work is None:
            return
        # A part that waits in vain can be left behind; whoever asks for a loss cannot.
        wait = partial(patiently, work.wait, self._stopped) if key.way == LOSSES else work.wait
        self._tried(self._processes.home(key.source), wait)

    def _stopped(self) -> Stopped | None:
        return Stopped() if self.is_stopped else None

    def _tried(self, process: int, operation: Callable[[], Any]) -> Any:
        """Return what an operation of gloo does; whoever is told to stop sees its connections break."""
        try:
            return operation()
        except RuntimeError:
            if self.is_stopped:
                raise Stopped from None
            raise self._processes.lost(process) from None

    def spread(self, batch: int, loss: Tensor) -> bool:
        """Tell all processes a mini-batch's loss, its dtype beside it.

        All learn it at the same place of their program, or one would wait for it where another does not.
        """
        told = torch.tensor([float(loss), DTYPES.index(loss.dtype)], dtype=torch.float64)
        self._losses[batch] = loss
        for process in range(self._processes.size):
            if process != self._processes.number:
                self.send(self._loss_key(batch, process), told, planned=False)
        return True

    def loss(self, batch: int) -> Tensor:
        self._rows.pop(batch, None)
        self._typed.discard(batch)
        if self._processes.number == self._loss_home:
            return self._losses.pop(batch)
        told = self.receive(self._loss_key(batch, self._processes.number))
        assert told is not None
        return torch.tensor(told[0].item(), dtype=DTYPES[int(told[1])])

    def _loss_key(self, batch: int, process: int) -> Key:
        # From the part that has it to the first one of a process.
        first = next(p for p in range(len(self._program.parts)) if self._processes.home(p) == process)
        return Key(batch, LOSSES, "loss", loss_part(self._program), first)

    def writing(self, part: int, *, together: bool) -> AbstractContextManager[None]:
        return self._threads.writing(part, together=together)

    def wait_until_written(self, limit_s: float) -> bool:
        return self._threads.wait_until_written(limit_s)

    def has_sent_all(self) -> bool:
        return sum(self._begun.values()) == self._arrived.num_bytes

    def waits_in_vain(self, part: int) -> bool:
        own = [key for key in list(self._waits) if key.target == part and key.way != LOSSES]  # those are the caller's
        return bool(own) and time.monotonic() > self._aborted + TOLD_S

    def abort(self) -> None:
        if not self._threads.is_stopped:
            self._threads.abort()
            self._processes.abort()
            self._aborted = time.monotonic()
        self._threads.abort()

    def clear(self) -> None:
        """Forget all that was not received, and end the threads: one in gloo at Python's own end would abort it."""
        self._threads.clear()
        self._posted.clear()
        self._buffers.clear()
        self._pending.put(None)
        self._reaper.join(TOLD_S)
        self._processes.end(JOIN_S)

    def moved_bytes(self, *, planned: bool = True) -> Moved:
        """Return the bytes that parts of this process have sent."""
        return sum(
            (counted.copy() for counted in self._counts[planned].values()), self._threads.moved_bytes(planned=planned)
        )


def made_transport(program: Program, world: World, *, clips: bool, updates_at_once: bool) -> Transport:
    """Return what carries messages between the parts of a program, in one process or several."""
    if isinstance(world, Processes):
        return Network(program, world, clips=clips, updates_at_once=updates_at_once)
    return Threads(world.parts)


def loss_part(program: Program) -> int:
    """Return the part that computes the loss."""
    return next(
        number
        for number, part in enumerate(program.parts)
        if any(isinstance(give, Output) for segment in part.segments for give in segment.gives)
    )


def _tags(program: Program, loans: tuple[Loan, ...]) -> dict[tuple[str, int | str, int, int], int]:
    """Return a number for all that ever travels, the same in every process."""
    parts = range(len(program.parts))
    pairs = [(source, target) for source in parts for target in parts]
    items: list[tuple[str, int | str, int, int]] = []
    for one in program.messages:
        items += [(FORWARD, one.number, one.source, one.target), (BACKWARD, one.number, one.target, one.source)]
    for loan in loans:
        items += [(GRADIENTS, loan.copy, loan.borrower, loan.peer), (WEIGHTS, loan.copy, loan.peer, loan.borrower)]
    items += [(way, item, *pair) for way, item in ((NORMS, "norm"), (LOSSES, "loss")) for pair in pairs]
    return {item: number for number, item in enumerate(items)}


def _flat(tensor: Tensor) -> Tensor:
    """Return the memory of a tensor: gloo does not know every dtype, and needs none."""
    return tensor.reshape(-1).view(torch.uint8)


def _nothing(like: Tensor) -> Tensor:
    size = min(len(NOTHING), like.numel() * like.element_size())
    return torch.frombuffer(bytearray(NOTHING[:size]), dtype=torch.uint8)


def _is_nothing(buffer: Tensor) -> bool:
    start = _flat(buffer)[: len(NOTHING)].numpy().tobytes()
    return bool(start) and start == NOTHING[: len(start)]


def _reap(pending: "queue.SimpleQueue[tuple[Any, Tensor] | None]", arrived: Arrived) -> None:
    """Keep what is being sent until it has arrived."""
    while (one := pending.get()) is not None:
        with suppress(RuntimeError):  # the connection is gone; whoever waits for an answer says so
            one[0].wait()
        arrived.num_messages, arrived.num_bytes = arrived.num_messages + 1, arrived.num_bytes + one[1].numel()
        del one  # or the last tensor would be kept until there is another
