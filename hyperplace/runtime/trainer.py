"""Train a generated program: a thread per part, mini-batches in flight, and the model's own state dict in and out."""

import weakref
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from torch import Tensor

from hyperplace.errors import HostLost, TrainingError, UsageError
from hyperplace.runtime.calls import Calls, one_at_a_time
from hyperplace.runtime.checkpoints.saved import Saved
from hyperplace.runtime.checkpoints.state import State, StateNames
from hyperplace.runtime.commands import Batch, Command, Load, Predict, Tick, Update
from hyperplace.runtime.crew import Crew, end_all, made_ranks, tell
from hyperplace.runtime.criterion import check_loss
from hyperplace.runtime.hosts.lookout import look_out
from hyperplace.runtime.hosts.world import Alone, World
from hyperplace.runtime.journal import timeline_of
from hyperplace.runtime.losses import Loss
from hyperplace.runtime.micro_batches import micro_batches
from hyperplace.runtime.optimizers import check_optimizers
from hyperplace.runtime.precision import autocasts
from hyperplace.runtime.progress import Lost, Progress
from hyperplace.runtime.rank import Rank
from hyperplace.runtime.run_settings import RunSettings
from hyperplace.runtime.runnable import Runnable
from hyperplace.runtime.structure import checked, filled, rows_fed
from hyperplace.runtime.transport import Stopped
from hyperplace.runtime.transport.distributed import loss_part, made_transport
from hyperplace.runtime.weights import Staleness, Training
from hyperplace.steps.schedule import schedule
from hyperplace.values.ranges import Range
from hyperplace.values.schedule import Schedule
from hyperplace.values.timeline import Timeline

PREDICTION = -1  # instead of a batch's number
JOIN_S = 4.5  # how long to wait for threads to end

T = TypeVar("T")
Held = dict[int, dict[str, Tensor]]  # tensors by attribute, of every part


class Trainer:
    """A program being trained; use it in a `with` block, so that its threads end.

    It is open until a part fails, an interrupt breaks a call off, or it is closed. From then on nothing runs any more,
    and every call says so at once; the weights after the last finished update stay readable and can be saved. Calls are
    made one at a time, only `close` goes always.
    """

    def __init__(
        self,
        runnable: Runnable,
        state: Mapping[str, Tensor],
        *,
        training: Training,
        loss: Callable[..., Tensor],
        settings: RunSettings | None = None,
        names: StateNames | None = None,
        evaluate: Callable[..., Any] | None = None,
        world: World | None = None,
    ) -> None:
        check_loss(loss)
        self.program, self.settings = runnable.program, settings or RunSettings()
        self._runnable = runnable  # its lines are there for tracebacks while somebody has it
        self.state, self._evaluate = State(self.program, state, names or StateNames()), evaluate
        clips, is_sync = training.clip_norm is not None, self.settings.schedule == "sync"
        self.schedule: Schedule = schedule(
            self.program, self.settings.in_flight, is_sync=is_sync, clips=clips, cluster=self.settings.cluster
        )
        self.world: World = world or Alone(len(self.program.parts))
        self._transport = made_transport(self.program, self.world, clips=clips, updates_at_once=not is_sync)
        self._progress = Progress(self.world.parts, partial(end_all, self.world, self._transport))
        self.ranks = made_ranks(
            runnable,
            state,
            self.schedule,
            training=training,
            loss=loss,
            settings=self.settings,
            transport=self._transport,
            parts=self.world.parts,
            tell=partial(tell, self._transport, self._progress),
        )
        if len(self.program.parts) > 1:
            num_learning = sum(bool(part.owned) for part in self.program.parts)
            check_optimizers({rank.number: rank.weights for rank in self.ranks}, num_learning)
        self.num_batches = 0  # mini-batches given so far
        self.calls = Calls()
        self._num_given = 0  # commands to wait for
        self._tick = self._num_predictions = 0
        self._is_closed = self._has_said_end = False
        self._is_filled = False  # a batch was given since the pipe last ran dry
        # Mini-batches whose loss is to come, each with its command's number.
        self._unknown: deque[tuple[int, int]] = deque()
        self._crew = Crew(self.ranks, self._transport, self._progress)
        ending = self._crew.stop if self.world.size == 1 else partial(self._crew.end, JOIN_S)
        self._forgotten = weakref.finalize(self, ending)
        look_out(self.world, self._transport, self._progress)

    def __repr__(self) -> str:
        """Say what it runs and how far it is, without waiting for anything."""
        program, settings = self.program, self.settings
        way = f"{settings.schedule} with {settings.in_flight} in flight"
        given = f"{self.num_batches:,} mini-batch{'es' * (self.num_batches != 1)} given"
        return f"Trainer({program.name}, {len(program.parts)} parts, {way}, {given}{', closed' * self._is_closed})"

    def __enter__(self) -> "Trainer":
        return self

    def __exit__(self, kind: object, fault: BaseException | None, *rest: object) -> None:
        try:
            if isinstance(fault, HostLost):
                pass  # of which all hear without being told
            elif fault is not None:
                self.world.tell_end(f"rank {self.world.number} ended with {type(fault).__name__}: {fault}")
            elif not self.is_over:
                self.flush()
        finally:
            self.close()

    @one_at_a_time
    def step(self, *batch: Any) -> Loss:
        """Train on a mini-batch: the model's inputs, then what the loss wants beside the output.

        Returns at once while there is room in flight.
        """
        inputs, target = checked(self.program, batch[:-1]), batch[-1] if batch else None
        self._check_open()
        return self._step_sync(inputs, target) if self.settings.schedule == "sync" else self._step_async(inputs, target)

    def _step_async(self, inputs: Sequence[Tensor], target: Any) -> Loss:
        self._make_room()
        loss = Loss(1, self.flush)
        self._progress.expect(self.num_batches, loss)
        self._enter(Batch(self.num_batches, tuple(inputs), target, autocasts=autocasts()))
        self.num_batches += 1
        return loss

    def _step_sync(self, inputs: Sequence[Tensor], target: Any) -> Loss:
        most = self.settings.micro_batches
        batches = micro_batches(self.program, inputs, target, first=self.num_batches * most, most=most)
        loss = Loss(len(batches), self.flush)
        for batch in batches:
            self._progress.expect(batch.number, loss)
            self._make_room()
            self._enter(batch)
        self._drain()
        self.num_batches += 1
        self._give(Update(batches[-1].number))
        self._wait_for(self._num_given)
        self.calls.note_order(is_done=True)
        return loss

    def _make_room(self) -> None:
        """Wait until another batch may be under way."""
        self._wait_for(self._num_given - self.settings.in_flight + 1)

    def _enter(self, batch: Batch | None) -> None:
        """Begin a tick, with a new batch or not."""
        if batch is not None:
            self._is_filled = True
        self._give(Tick(self._tick, batch), is_waited_for=batch is not None)
        self._tick += 1

    def _give(self, command: Command, *, is_waited_for: bool = True) -> None:
        self._check_open()
        # First of all: whatever is noted here of a command that an interrupt keeps from being handed out would be
        # waited for by the next call, were it not told that this one was broken off.
        self.calls.note_order()
        self._num_given += is_waited_for
        if isinstance(command, Tick) and command.batch is not None:
            self._unknown.append((command.batch.number, self._num_given))
        self._transport.announce(command)
        self._crew.give(command)

    def _wait_for(self, num_commands: int) -> None:
        """Wait until all parts have done so many commands."""
        while self._progress.num_finished < num_commands:
            self._check_open()
            self._progress.wait()
        while self._unknown and self._unknown[0][1] <= num_commands:
            self._know(self._unknown.popleft()[0])

    def _know(self, batch: int) -> None:
        """Learn the loss of a finished mini-batch, where it was not known at once."""
        try:
            loss = self._transport.loss(batch)
        except Stopped:
            self._check_open()
            raise TrainingError("the trainer was stopped while a loss was on its way") from None
        if loss is not None:
            self._progress.tell(Lost(batch, loss))

    @property
    def _is_open(self) -> bool:
        return not (self._progress.fault or self._is_closed or self.calls.broken_by)

    def _check_open(self) -> None:
        """Raise what ended the trainer's life, if it has ended."""
        self._has_said_end = not self._is_open
        self._progress.raise_fault()
        if self._is_closed:
            raise TrainingError("the trainer is closed; make another")
        if self.calls.broken_by:
            self._crew.stop()
            raise TrainingError(
                f"the trainer was interrupted within {self.calls.broken_by}(), and what was under way is lost; "
                "state_dict() and save_checkpoint() still give its last finished weights: make another from them"
            )

    @one_at_a_time
    def flush(self) -> None:
        """Finish all mini-batches under way."""
        self._flush()

    def _flush(self) -> None:
        if not (self._is_closed and self._num_given <= self._progress.num_finished):
            self._check_open()
        # By what was given, and not by how far the parts here are: all processes must count the same ticks.
        if self._is_filled and not self._is_closed:
            self._drain()
        self.calls.note_order(is_done=True)

    def _drain(self) -> None:
        for _ in range(self.schedule.drain):
            self._enter(None)
        self._wait_for(self._num_given)
        self._is_filled = False

    @one_at_a_time
    def predict(self, *given: Any, training: bool = False) -> Any:
        """Return the model's outputs without learning; in evaluation mode unless `training`, with new masks."""
        if not (training or self.program.predicts):
            return self._evaluated(given)
        inputs = checked(self.program, given)
        self._check_open()
        self._flush()
        self._num_predictions += 1
        batch = Batch(PREDICTION, tuple(inputs), autocasts=autocasts(), lot=-self._num_predictions)
        self._give(Predict(batch, training))
        self._wait_for(self._num_given)
        outputs = self.world.share("predict", self._progress.take_outputs(), self.world.home(loss_part(self.program)))
        self.calls.note_order(is_done=True)
        return filled(self.program, outputs)

    def _evaluated(self, given: Sequence[Any]) -> Any:
        """Return what the unsplit model makes of the inputs, where evaluation mode is not what the parts run."""
        if self._evaluate is None:
            raise UsageError(
                f"{self.program.name} does something else in evaluation mode than in training, so it cannot predict; "
                "load the state dict into the model and use that, or give training=True"
            )
        self._check_open()
        self._settle()
        whole = self._whole("predict", self._held())
        outputs = self._evaluate(whole, given) if self.world.number == 0 else None
        return self.world.share("predict", outputs, 0)

    @one_at_a_time
    def state_dict(self) -> dict[str, Tensor]:
        """Return parameters and buffers by the model's own names; after a fault, those of the last finished updates.

        Of several processes the first one gets them, the others an empty dict.
        """
        self._settle()
        return self._shown(self._whole("state_dict", self._held()))

    @one_at_a_time
    def averaged_state_dict(self) -> dict[str, Tensor]:
        """Return the averaged weights, with the buffers as they are."""
        self._settle()
        averaged = {rank.number: rank.weights.averaged() for rank in self.ranks}
        held = {part: {**tensors, **averaged[part]} for part, tensors in self._held().items()}
        return self._shown(self._whole("averaged_state_dict", held))

    def outlive(self, run: "Callable[[Trainer], T]", **does: bool) -> T:
        """Return what a call of all processes gives; a Survivor makes it again where a host is lost meanwhile."""
        return run(self)

    @one_at_a_time
    def settled(self, read: Callable[[], T]) -> T:
        """Return what `read` finds, called when nothing writes weights: for what is read with them."""
        self._settle()
        return read()

    def _shown(self, whole: dict[str, Tensor]) -> dict[str, Tensor]:
        return self.state.shown(whole) if whole else {}

    def _whole(self, call: str, held: Held) -> dict[str, Tensor]:
        """Return what the parts of all processes hold, put together in the first one."""
        found = {part: one for held in self.world.gather(call, held) for part, one in held.items()}
        pieces = [(p, found[part][name]) for part in found for name, p in self.program.parts[part].held.items()]
        return self.state.assembled(pieces) if found else {}

    def _held(self) -> Held:
        """Return what all parts here hold."""
        return {rank.number: self.held(rank) for rank in self.ranks}

    def held(self, rank: Rank) -> dict[str, Tensor]:
        """Return a part's weights and buffers by attribute: after the trainer's end, those of its last updates."""
        found = rank.weights.now() if self._is_open else rank.weights.finished()
        return {name: tensor.detach() for name, tensor in found.items()}

    @property
    def num_finished(self) -> int:
        """Mini-batches whose updates all parts have done."""
        return min(rank.num_done for rank in self.ranks)

    def _settle(self) -> None:
        """Finish what is under way; where that cannot be, wait only until no part writes its weights any more."""
        if self._is_open:
            self._flush()
        elif not self._crew.stops_writing():
            raise TrainingError(
                "a part is still within an update, so its weights are half old, half new; ask again later"
            )

    @one_at_a_time
    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Take the parameters and buffers of a state dict of the model, whatever the plan it comes from."""
        self._load(state, self.num_batches)

    @one_at_a_time
    def load(self, saved: Saved) -> None:
        """Take what a checkpoint has saved."""
        self._load(saved.model, saved.num_batches, saved)

    def _load(self, state: Mapping[str, Tensor], num_batches: int, saved: Saved | None = None) -> None:
        self._check_open()
        whole = self.state.check(state)
        self._flush()
        own = {name: tensor.detach().cpu().clone() for name, tensor in whole.items() if not tensor.is_meta}
        self._give(Load(own, num_batches, saved))
        self._wait_for(self._num_given)
        self.state.take(own)
        self.num_batches = num_batches
        self.calls.note_order(is_done=True)

    def rows_fed(self, num_rows: int) -> Sequence[Range]:
        """Return which rows of the inputs parts of this process read: only these need to be there.

        The target is needed everywhere.
        """
        if self.settings.micro_batches > 1:  # each is cut by itself
            return ((0, num_rows),)
        return rows_fed(self.program, self.world.parts, num_rows)

    @one_at_a_time
    def total(self, *counts: int) -> list[int]:
        """Return the sums of what every process has counted, such as in a loss function, which one of them calls."""
        return [sum(each) for each in zip(*self.world.exchange("total", list(counts)), strict=True)]

    @property
    def staleness(self) -> list[Staleness]:
        """How many updates came between the oldest weights seen and a mini-batch's own update, per part here."""
        return [rank.weights.staleness for rank in self.ranks]

    @one_at_a_time
    def moved_bytes(self, *, planned: bool = True) -> Counter[tuple[str, int, int]]:
        """Return the bytes moved so far by (way, source, target).

        The ways are "forward" and "backward", and for copies of weights "gradients" to the owner and "weights" from it.
        What brings outputs to the loss, and the "norms" of `clip_norm`, are counted apart: `planned=False`.
        """
        self._settle()
        counted = self.world.exchange("moved_bytes", dict(self._transport.moved_bytes(planned=planned)))
        return sum(map(Counter, counted), Counter())

    def sent_bytes(self) -> Counter[int]:
        """Return the bytes that each part here has sent so far; goes at any time, and waits for nothing."""
        found: Counter[int] = Counter()
        for (_, source, _), num_bytes in self._transport.moved_bytes(planned=True).items():
            found[source] += num_bytes
        return found

    @one_at_a_time
    def timeline(self) -> Timeline:
        """Return what every rank did when; needs `record`."""
        self._settle()
        ahead_ns = self.world.clock_ahead_ns()
        noted = {rank.number: rank.journal.shifted(-ahead_ns) for rank in self.ranks}
        everywhere = self.world.exchange("timeline", noted)
        return timeline_of(self.program, {part: records for one in everywhere for part, records in one.items()})

    def stop(self) -> None:
        """Let nothing run any more, without waiting for the threads; goes at any time, in a signal handler too."""
        if not self.calls.is_forked:
            if self._is_open:
                self.world.tell_end(f"rank {self.world.number} was told to stop")
            self._is_closed = True
            self._crew.stop()

    copied_bytes = 0  # to other hosts, for the case that this one is lost: a Survivor does

    @property
    def is_over(self) -> bool:
        """Whether it was closed, or has told the caller why it can do no more."""
        return self._is_closed or self._has_said_end

    def abandon(self) -> None:
        """End all threads without a word to the other processes, who do the same."""
        self._is_closed = True
        self._end(JOIN_S)

    def _end(self, limit_s: float) -> None:
        self._crew.end(limit_s)
        # It keeps the crew, whose fault has a traceback through the trainer's own frames: none would ever be forgotten.
        self._forgotten.detach()

    def close(self) -> None:
        """End all threads; the weights stay readable. Goes at any time, from any thread."""
        if self.calls.is_forked:
            return
        limit_s = 0.0 if self._is_closed else JOIN_S
        if self._is_open:
            self._leave()
        self._is_closed = True
        self._end(limit_s)

    def _leave(self) -> None:
        """Part from the other processes: in good order where nothing is under way, otherwise with a word to them."""
        if self._num_given <= self._progress.num_finished:
            self.world.leave()
        else:
            self.world.tell_end(f"rank {self.world.number} has closed its trainer while mini-batches were under way")
