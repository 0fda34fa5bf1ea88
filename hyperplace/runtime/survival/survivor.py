"""A trainer that outlives the loss of a host: what is left of its processes goes on with fewer parts.

Around the trainer of the present generation it keeps a log of calls since the last cut that is whole everywhere (see
buddies.py). When a host is lost, the trainer and all its connections are given up, never repaired. The others meet
anew, at a store of their own; make a trainer of the plan for as many parts as are left; take the newest cut that all
shards are there of, each at its own process or at a buddy; and make the calls since then again. Each process has come
to another call, but all make the same ones in the same order, so none must wait for where another is.
"""

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from torch import Tensor

from hyperplace.errors import HostLost, TrainingError
from hyperplace.runtime.checkpoints.saved import Saved, as_saved
from hyperplace.runtime.checkpoints.shards import merged
from hyperplace.runtime.hosts.processes import Processes
from hyperplace.runtime.losses import Loss
from hyperplace.runtime.precision import autocasts, within
from hyperplace.runtime.survival.arrivals import Arrived, Choice, admitted, choose, content_of, met, say_swapped, taken
from hyperplace.runtime.survival.buddies import Buddies, Cut
from hyperplace.runtime.survival.door import Door
from hyperplace.runtime.survival.log import Call, LaterLoss, Log
from hyperplace.runtime.trainer import Trainer
from hyperplace.values.ranges import Range

T = TypeVar("T")
MakeTrainer = Callable[[Processes], Trainer]


@dataclass(frozen=True)
class Change:
    """A host was lost or taken in: which, after which mini-batch all went on, how many came again, and how soon."""

    news: str
    num_batches: int
    num_again: int
    num_processes: int
    seconds: float  # from when the loss was known until all was computed again

    def __str__(self) -> str:
        return (
            f"{self.news}; {self.num_processes} went on after mini-batch {self.num_batches}, computing "
            f"{self.num_again} again, in {self.seconds:.1f} s"
        )


class Survivor:
    """A trainer in several processes of which some may be lost, one after the other; used as a Trainer is.

    Every process needs all rows of the mini-batches, for it may have to feed any part.
    """

    def __init__(
        self,
        processes: Processes,
        make: MakeTrainer,
        *,
        most_lost: int,
        every: int,
        full: int | None = None,
        door: Door | None = None,
        guest_of: str = "",
    ) -> None:
        self._make, self._left, self._every = make, most_lost, every
        self._most_lost, self._full, self._door = most_lost, full or processes.size, door
        self.on_change: Callable[[Change], None] = lambda change: warnings.warn(str(change), stacklevel=2)
        self._log = Log()
        self._loads = 0
        self._key = guest_of or f"{processes.name}/calls"
        self.on_return: Callable[[int], None] = lambda batch: None  # to before this one; it and others come again
        self.on_arrival: Callable[[], None] = lambda: None  # somebody was taken in
        self.changes: list[Change] = []
        self.trainer = make(processes)
        self.brought: Mapping[str, Any] = {}  # what the others gave a guest along, as beside a checkpoint
        self.buddies: Buddies | None = None
        self._copied_before = 0  # in earlier generations
        if guest_of:
            arrived = taken(self.trainer, {}, 0, 0)
            self.brought = arrived.saved.extra
            self._begin(processes, arrived)
        else:
            self._meet_buddies(processes)
            self._take_first()

    def _begin(self, world: Processes, arrived: Arrived) -> None:
        """Begin a generation in which somebody new is there: all have the same state, and made the same calls."""
        say_swapped(world.heart, world.name)
        self._log.calls.clear()
        self._log.num_done = arrived.num_done
        self._left = self._most_lost - (self._full - world.size)
        self._meet_buddies(world)
        self._note_loads(arrived.loads)
        world.heart.say(self._key, str(arrived.num_done))
        self._take_first()

    def _take_first(self) -> None:
        for cuts in self.buddies.cuts if self.buddies else ():
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
        return _processes_of(self.trainer)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.trainer, name)

    def __enter__(self) -> "Survivor":
        return self

    def __exit__(self, kind: object, fault: BaseException | None, *rest: object) -> None:
        try:
            if fault is None and not self.trainer.is_over:
                self.flush()
        finally:
            self._close_door()
            self._stop_buddies()
            self.trainer.__exit__(kind, fault, *rest)

    def close(self) -> None:
        self._close_door()
        self._stop_buddies()
        self.trainer.close()

    def take_in(self, extra: Mapping[str, Any] | None = None) -> None:
        """Let in a spare host, or one that has come back, if one waits and one is missing; all processes call this.

        For the place after a checkpoint: the newcomer begins here, with the state that all have now, and `extra`, the
        caller's own, in its `brought`.
        """
        num_waiting = self._door.num_waiting() if self._door else 0  # asked once: whatever is lost, all find the same
        choices: list[Choice | None] = []
        self.outlive(lambda trainer: choices.append(choose(_processes_of(trainer), num_waiting, self._full)))
        while choice := choices[-1]:
            try:
                self._take_in(choice, extra or {})
                return
            except TrainingError as fault:
                self._outlived(Call(self._place, lambda trainer: None), self._lost(fault))

    def _take_in(self, choice: Choice, extra: Mapping[str, Any]) -> None:
        """Begin a new generation with a guest in it; where that is lost, leave all as it is."""
        begin, old, before, arrived = time.monotonic(), self.trainer, self._processes, None
        if not admitted(before, self._door, choice, self._key):
            return
        content, new, heart = content_of(old, extra), None, before.heart
        try:
            world = met(heart, [*before.members, choice.number], len(before.parts))
            new = self._make(world)
            arrived = taken(new, content, self._loads, self._log.num_done)
        except TrainingError:
            if new:
                new.abandon()
            if before.fault():
                raise
            heart.withdraw(choice.number)
            return
        self._stop_buddies()
        self._copied_before += self.buddies.sent_bytes if self.buddies else 0
        self.buddies = None  # what it keeps is of the parts before
        old.abandon()
        for number in heart.lost:
            heart.withdraw(number)
        self.trainer = new
        self._begin(world, arrived)
        self.on_arrival()
        news = f"{heart.place_of(choice.number)} was taken in"
        self._note(Change(news, new.num_batches, 0, world.size, time.monotonic() - begin))

    def _note(self, change: Change) -> None:
        self.changes.append(change)
        self.on_change(change)

    def stop(self) -> None:
        self.trainer.stop()

    def _stop_buddies(self) -> None:
        if self.buddies:
            self.buddies.stop()

    def _close_door(self) -> None:
        if self._door:
            self._door.close()

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

    def _outlived(self, call: Call, lost: HostLost | None = None) -> Any:
        """Make a call, and whenever a host is lost meanwhile all of the log and then it once more."""
        assert call.run is not None
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
        world = met(before.heart, members, len(before.parts))
        self.trainer = self._make(world)
        cut, saved, num_done = _agreed(world, self.trainer, buddies, before, gone, rest, self._log.num_done)
        self._meet_buddies(world)
        self._note_loads(cut[0])
        self.trainer.load(saved)
        self.on_return(cut[1] * old.settings.micro_batches)
        self._again(cut, num_done)
        self._note(Change(str(lost), cut[1], num_given - cut[1], world.size, time.monotonic() - begin))

    def _again(self, cut: Cut, num_done: int) -> None:
        """Make all calls since a cut again that somebody has not done, or that change what is trained."""
        for call in self._log.calls:
            if call.place < cut:
                continue
            if call.run and (call.number is None or call.changes or call.number >= num_done):
                call.run(self.trainer)
            elif call.flushes:
                self.trainer.flush()


def _processes_of(trainer: Trainer) -> Processes:
    assert isinstance(trainer.world, Processes)
    return trainer.world


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
