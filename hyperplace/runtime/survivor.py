"""A trainer that outlives the loss of a host: what is left of its processes goes on with fewer parts.

Around the trainer of the present generation it keeps a log of calls since the last cut that is whole everywhere (see
buddies.py). When a host is lost, the trainer and all its connections are given up, never repaired. The others meet
anew, at a store of their own; make a trainer of the plan for as many parts as are left; take the newest cut that all
shards are there of, each at its own process or at a buddy; and make the calls since then again. Each process has come
to another call, but all make the same ones in the same order, so none must wait for where another is.
"""

import time
import warnings
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, TypeVar

from torch import Tensor
from torch._C._distributed_c10d import Store, TCPStore

from hyperplace.errors import HostLost, TrainingError
from hyperplace.runtime.buddies import Buddies, Cut
from hyperplace.runtime.losses import Loss
from hyperplace.runtime.precision import autocasts, within
from hyperplace.runtime.processes import END, POLL_S, Processes
from hyperplace.runtime.saved import Saved, as_saved
from hyperplace.runtime.shards import merged
from hyperplace.runtime.trainer import Trainer
from hyperplace.values.ranges import Range

MEET_S = timedelta(seconds=20)  # to reach the store of those who are left

T = TypeVar("T")
MakeTrainer = Callable[[Processes], Trainer]


@dataclass(frozen=True)
class Change:
    """A host was lost: who, after which mini-batch the others went on, how many they computed again, and when."""

    lost: str
    num_batches: int
    num_again: int
    num_processes: int
    seconds: float  # from when the loss was known until all was computed again

    def __str__(self) -> str:
        return (
            f"{self.lost}; {self.num_processes} went on after mini-batch {self.num_batches}, computing "
            f"{self.num_again} again, in {self.seconds:.1f} s"
        )


@dataclass(eq=False)
class Call:
    """A call in the log, with where it was made: before any cut of a later place, after any other."""

    place: Cut
    run: Callable[[Trainer], Any] | None  # None: all have done it, and what is left of it is that the pipe ran dry
    number: int | None = None  # among the calls in which processes wait for each other; None for a step
    changes: bool = False  # what is trained: it is made again wherever a cut before it is gone back to
    flushes: bool = True


class LaterLoss(Loss):
    """The loss of a mini-batch, whichever generation computes it; the first that does is believed."""

    def __init__(self, flush: Callable[[], None]) -> None:
        super().__init__(1, flush)
        self.now: Loss | None = None

    @property
    def is_ready(self) -> bool:
        return self.now is not None and self.now.is_ready

    def item(self) -> float:
        if not self.is_ready:
            self._flush()
        assert self.now is not None
        return self.now.item()

    def __repr__(self) -> str:
        return repr(self.now)


@dataclass
class _Log:
    """The calls that may have to be made again."""

    calls: deque[Call] = field(default_factory=deque)
    num_done: int = 0  # of those in which processes wait for each other

    def forget(self, stable: Cut, num_done_by_all: int) -> None:
        """Drop what lies before a cut that nobody goes back from, and what calls hold that all have done."""
        while self.calls and self.calls[0].place < stable:
            self.calls.popleft()
        for call in reversed(self.calls):
            if call.number is not None and call.number < num_done_by_all and not call.changes:
                if call.run is None:
                    break
                call.run = None


class Survivor:
    """A trainer in several processes of which some may be lost, one after the other; used as a Trainer is.

    Every process needs all rows of the mini-batches, for it may have to feed any part.
    """

    def __init__(self, processes: Processes, make: MakeTrainer, *, most_lost: int, every: int) -> None:
        self._make, self._left, self._every = make, most_lost, every
        self.on_change: Callable[[Change], None] = lambda change: warnings.warn(str(change), stacklevel=2)
        self._log = _Log()
        self._loads = 0
        self._key = f"{processes.name}/calls"
        self.on_return: Callable[[int], None] = lambda batch: None  # to before this one; it and others come again
        self.changes: list[Change] = []
        self.trainer = make(processes)
        self.buddies: Buddies | None = None
        self._copied_before = 0  # in earlier generations
        self._meet_buddies(processes)
        if self.buddies:
            for cuts in self.buddies.cuts:
                cuts.take()

    def _meet_buddies(self, processes: Processes) -> None:
        has_some = self._left > 0 and processes.size > 1
        is_sync = self.trainer.settings.schedule == "sync"
        self.buddies = Buddies(processes, self.trainer.ranks, self._every, is_sync=is_sync) if has_some else None

    @property
    def copied_bytes(self) -> int:
        """What this process has sent to another one so far, for the case that it is lost."""
        return self._copied_before + (self.buddies.sent_bytes if self.buddies else 0)

    @property
    def _processes(self) -> Processes:
        assert isinstance(self.trainer.world, Processes)
        return self.trainer.world

    def __getattr__(self, name: str) -> Any:
        return getattr(self.trainer, name)

    def __enter__(self) -> "Survivor":
        return self

    def __exit__(self, kind: object, fault: BaseException | None, *rest: object) -> None:
        try:
            if fault is None and not self.trainer.is_over:
                self.flush()
        finally:
            self._stop_buddies()
            self.trainer.__exit__(kind, fault, *rest)

    def close(self) -> None:
        self._stop_buddies()
        self.trainer.close()

    def stop(self) -> None:
        self.trainer.stop()

    def _stop_buddies(self) -> None:
        if self.buddies:
            self.buddies.stop()

    def step(self, *batch: Any) -> Loss:
        """Train on a mini-batch, as a Trainer does; it is kept until nobody can lose it any more."""
        loss, casts = LaterLoss(self.flush), autocasts()
        own = [one.clone() if isinstance(one, Tensor) else one for one in batch]  # the caller may use its memory again

        def run(trainer: Trainer) -> None:
            with within(casts):
                given = trainer.step(*own)
            if not loss.is_ready:
                loss.now = given

        self._outlived(Call(self._place, run))
        return loss

    def flush(self) -> None:
        """Finish all mini-batches under way; nobody waits for another process here but in steps."""
        self._outlived(Call(self._place, lambda trainer: trainer.flush()))

    def outlive(
        self, run: Callable[[Trainer], T], *, changes: bool = False, loads: bool = False, flushes: bool = True
    ) -> T:
        """Make a call that all processes make, again if a host is lost meanwhile; say what it does to the state."""
        call = Call(self._place, run, self._log.num_done, changes or loads, flushes)
        if loads:
            self._loads += 1
            loads_now = self._loads

            def load(trainer: Trainer) -> T:
                self._note_loads(loads_now)
                return run(trainer)

            call.run = load
        found: T = self._outlived(call)
        self._log.num_done += 1
        self._processes.heart.say(self._key, str(self._log.num_done))
        return found

    def predict(self, *given: Any, training: bool = False) -> Any:
        return self.outlive(lambda trainer: trainer.predict(*given, training=training), changes=training)

    def state_dict(self) -> dict[str, Tensor]:
        return self.outlive(lambda trainer: trainer.state_dict())

    def averaged_state_dict(self) -> dict[str, Tensor]:
        return self.outlive(lambda trainer: trainer.averaged_state_dict())

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        self.outlive(lambda trainer: trainer.load_state_dict(state), loads=True)

    def load(self, saved: Saved) -> None:
        self.outlive(lambda trainer: trainer.load(saved), loads=True)

    def total(self, *counts: int) -> list[int]:
        return self.outlive(lambda trainer: trainer.total(*counts), flushes=False)

    def moved_bytes(self, *, planned: bool = True) -> Any:
        """Return the bytes moved, since the last change of generation."""
        return self.outlive(lambda trainer: trainer.moved_bytes(planned=planned))

    def timeline(self) -> Any:
        """Return what every rank did when, since the last change of generation."""
        return self.outlive(lambda trainer: trainer.timeline())

    def rows_fed(self, num_rows: int) -> Sequence[Range]:
        return ((0, num_rows),)

    @property
    def _place(self) -> Cut:
        return self._loads, self.trainer.num_batches

    def _note_loads(self, loads: int) -> None:
        self._loads = loads
        if self.buddies:
            self.buddies.note_loads(loads)

    def _outlived(self, call: Call) -> Any:
        """Make a call, and whenever a host is lost meanwhile all of the log and then it once more."""
        assert call.run is not None
        lost: HostLost | None = None
        while True:
            try:
                if lost:
                    self._take_over(lost)
                found = call.run(self.trainer)
                break
            except TrainingError as fault:
                lost = self._lost(fault)
        if self.buddies:
            self._log.calls.append(call)
            self._log.forget(self.buddies.stable, self._num_done_by_all())
        return found

    def _num_done_by_all(self) -> int:
        said = self._processes.heart.said(self._key)
        return min(int(said.get(member, "0")) for member in self._processes.members)

    def _lost(self, fault: TrainingError) -> HostLost:
        """Return who is lost, or raise what cannot be outlived."""
        world = self._processes
        found = world.heart.fault(world.members)
        if not isinstance(found, HostLost):
            raise fault
        num_lost = sum(member in world.heart.lost for member in world.members)
        if num_lost > 1 or self._left < 1 or self.buddies is None:
            raise found
        return found

    def _take_over(self, lost: HostLost) -> None:
        """Begin a new generation without whoever is lost."""
        begin, old, buddies = time.monotonic(), self.trainer, self.buddies
        assert buddies is not None
        before, num_given, rest = self._processes, old.num_batches, old.state.rest
        old.abandon()
        buddies.stop()
        self._copied_before += buddies.sent_bytes
        self._left -= 1
        members = [member for member in before.members if member not in before.heart.lost]
        gone = next(number for number, member in enumerate(before.members) if member in before.heart.lost)
        num_parts = len(before.parts) * len(members)
        store = _met_store(before, members)
        world = Processes(num_parts, len(before.parts), heart=before.heart, store=store, members=members)
        world.connect()
        self.trainer = self._make(world)
        cut, saved, num_done = _agreed(world, self.trainer, buddies, before, gone, rest, self._log.num_done)
        self._meet_buddies(world)
        self._note_loads(cut[0])
        self.trainer.load(saved)
        self.on_return(cut[1] * old.settings.micro_batches)
        self._again(cut, num_done)
        change = Change(str(lost), cut[1], num_given - cut[1], world.size, time.monotonic() - begin)
        self.changes.append(change)
        self.on_change(change)

    def _again(self, cut: Cut, num_done: int) -> None:
        """Make all calls since a cut again that somebody has not done, or that change what is trained."""
        for call in self._log.calls:
            if call.place < cut:
                continue
            if call.run and (call.number is None or call.changes or call.number >= num_done):
                call.run(self.trainer)
            elif call.flushes:
                self.trainer.flush()


def _met_store(before: Processes, members: Sequence[int]) -> Store:
    """Return a store that the first of those who are left has; the one of torch.distributed may be gone."""
    heart, first = before.heart, members[0]
    key = "store/" + "-".join(map(str, members))
    if heart.number == first:
        store = TCPStore(heart.home_of(first), 0, is_master=True, wait_for_workers=False)
        heart.say(key, str(store.port))
        return store

    def fault() -> TrainingError | None:
        said = heart.said(END)
        return TrainingError(next(iter(said.values()))) if said else heart.fault(members)

    while first not in heart.said(key):  # it may be long in the caller's own code, and lives
        if found := fault():
            raise found
        time.sleep(POLL_S)
    port, home = int(heart.said(key)[first]), heart.home_of(first)
    return heart.watched(lambda: TCPStore(home, port, is_master=False, timeout=MEET_S), fault)


def _agreed(
    world: Processes,
    trainer: Trainer,
    buddies: Buddies,
    before: Processes,
    gone: int,
    rest: Mapping[str, Tensor],
    num_done: int,
) -> tuple[Cut, Saved, int]:
    """Return the newest cut of which all shards are there, what it has, and how many calls all have done."""
    is_buddy = before.number == (gone + 1) % before.size
    own, ward = buddies.kept()
    told = world.exchange("survive", [own, ward if is_buddy else None, num_done])
    sets = [{tuple(cut) for cut in cuts} for one in told for cuts in one[:2] if cuts is not None]
    if not (common := set.intersection(*sets)):
        raise TrainingError("no update is there of all shards, for a host was lost before the first was copied")
    cut: Cut = max(common)
    mine = [*buddies.own_shards(cut), *(buddies.ward_shards(cut) if is_buddy else [])]
    shards = [shard for some in world.exchange("survive", mine) for shard in some]
    shards[0] = {**shards[0], "rest": rest}
    table = [trainer.program.parts[part] for part in world.parts]
    wanted = {piece.name for one in table for piece in (*one.weights.values(), *one.buffers.values())} | rest.keys()
    content = merged(trainer.state, shards, wanted) | {"extra": {}}
    return cut, as_saved("what was streamed", content), min(one[2] for one in told)
