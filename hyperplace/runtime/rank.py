"""One part: it follows commands, lets segments run as the schedule says, updates, and tells what has come of it.

A rank knows its own part of the program, its row of the schedule, its weights, and its end of a transport; of other
parts it knows what they send. What it has to say goes out as values, so it may live in any thread or process.
"""

import queue
from collections.abc import Callable

import torch

from hyperplace.runtime.checkpoints.saved import give_back
from hyperplace.runtime.clipping import SharedNorm
from hyperplace.runtime.commands import Command, Load, Predict, Tick, Update
from hyperplace.runtime.journal import Journal
from hyperplace.runtime.options import Options
from hyperplace.runtime.passes import InFlight
from hyperplace.runtime.progress import Event, Fault, Finished
from hyperplace.runtime.replicas import Replicas
from hyperplace.runtime.runnable import Part
from hyperplace.runtime.segments import Segments
from hyperplace.runtime.transport import Endpoint, Stopped, Transport
from hyperplace.runtime.weights import Version, Weights
from hyperplace.values.program import Program
from hyperplace.values.schedule import FORWARD, NORM, PASS, RELAY, UPDATE, Action


class Rank:
    """Run one part: `part` has its code, the program its tables."""

    def __init__(
        self,
        program: Program,
        part: Part,
        actions: tuple[Action, ...],
        endpoint: Endpoint,
        *,
        weights: Weights,
        replicas: Replicas,
        norm: SharedNorm | None,
        journal: Journal,
        options: Options,
        tell: Callable[[Event], None],
    ) -> None:
        self.number, self.part, self.weights, self.replicas = endpoint.part, part, weights, replicas
        self.journal = journal
        self.commands: queue.SimpleQueue[Command | None] = queue.SimpleQueue()
        self.num_batches = 0  # before the updates that `weights` counts
        self.table = program.parts[self.number]
        self.segments = Segments(
            program, part, endpoint, weights=weights, replicas=replicas, journal=journal, options=options, tell=tell
        )
        self._actions, self._endpoint, self._norm = actions, endpoint, norm
        self._options, self._tell = options, tell
        self._kinds = {action.kind for action in actions}
        self._in_flight: dict[int, InFlight] = {}
        self._to_relay: dict[int, int] = {}  # by tick, the mini-batches whose weights have yet to be passed on

    @property
    def transport(self) -> Transport:
        return self._endpoint.transport

    @property
    def num_done(self) -> int:
        """Mini-batches whose updates are done."""
        return self.num_batches + self.weights.number

    def run(self) -> None:
        """Follow commands until told to stop; a fault is told, and goes no further."""
        torch.set_num_threads(self._options.threads)
        try:
            while (command := self.commands.get()) is not None and not self._is_stopped:
                self._follow(command)
        except Stopped:
            pass
        except BaseException as fault:  # a rank's edge: whatever it is, it must reach the caller
            self._tell(Fault.of(self.number, self.table, self.journal.now, self.part.step, fault))
        finally:
            self._in_flight.clear()

    @property
    def _is_stopped(self) -> bool:
        return self.transport.is_stopped

    def _follow(self, command: Command) -> None:
        match command:
            case Tick():
                self._tick(command)
            case Update():
                self.journal.begin("update", 0, command.batch)
                self.replicas.give(command.batch)
                self.replicas.relay(command.batch)
                self._sum(command.batch)
                self._update(command.batch)
                self.replicas.pass_on()
                self._tell(Finished(self.number))
            case Predict():
                self.segments.predict(command)
            case Load():
                self._load(command)
                self._tell(Finished(self.number))

    def _tick(self, tick: Tick) -> None:
        if tick.batch is not None:
            self._in_flight[tick.number] = InFlight(tick.batch, Version(wants=self.replicas.enter(tick.number)))
            if PASS in self._kinds:
                self._to_relay[tick.number] = tick.batch.number
            if not self._actions:
                self._finish(tick.number)
        for action in self._actions:
            if action.kind in (RELAY, PASS):
                self._relay(tick.number - action.offset, action.kind)
                continue
            live = self._in_flight.get(tick.number - action.offset)
            if live is None:
                continue
            if self._is_stopped:
                raise Stopped
            if action.kind == FORWARD:
                self.segments.forward(live, action.segment)
            elif action.kind == NORM:
                self._gather(live)
            elif action.kind == UPDATE:
                self._close(tick.number - action.offset)
            else:
                self.segments.backward(live, action.segment)
                live.num_backward += 1
                if live.num_backward == len(self.table.segments):
                    self._finish(tick.number - action.offset)

    def _relay(self, tick: int, kind: str) -> None:
        """Send on what comes for others: gradients of a mini-batch to the owner, or what its update made of weights."""
        if (batch := self._to_relay.get(tick)) is None:
            return
        self.journal.begin("update", 0, batch)
        if kind == RELAY:
            self.replicas.relay(batch)
        else:
            del self._to_relay[tick]
            self.replicas.pass_on()
            self._tell(Finished(self.number))

    def _finish(self, tick: int) -> None:
        """Pass on the gradients of borrowed weights that are left once all backward segments of a mini-batch are done.

        A part that lends must not wait here for the gradients of others, who may be waiting for it.
        """
        live = self._in_flight[tick]
        self.journal.begin("update", 0, live.batch.number)
        self.replicas.accumulate(live.version)
        if self._options.updates_at_once:
            self.replicas.give(live.batch.number)
        if UPDATE not in self._kinds:
            self._close(tick)

    def _close(self, tick: int) -> None:
        """Gather a mini-batch's gradients, unless that was an action of its own, and update if it is time."""
        live = self._in_flight.pop(tick)
        if NORM not in self._kinds:
            self._gather(live)
        if self._options.updates_at_once:
            self._update(live.batch.number, live.version)
        if PASS not in self._kinds:
            self._tell(Finished(self.number))

    def _gather(self, live: InFlight) -> None:
        self.journal.begin("update", 0, live.batch.number)
        self.weights.accumulate(live.version)
        if self._options.updates_at_once:
            self._sum(live.batch.number)

    def _sum(self, batch: int) -> None:
        """Complete the gradients of an update with those of copies, and tell their norm where it is shared."""
        self.replicas.collect(batch)
        if self._norm:
            self._norm.tell(batch)

    def _update(self, batch: int, version: Version | None = None) -> None:
        """Wait for what others must send, then write: whoever writes waits for nobody, so that it surely ends."""
        self.journal.begin("update", 0, batch)
        if self._norm:
            self._norm.clip(batch)
        with self.transport.writing(self.number, together=self._options.updates_together):
            self.journal.timed("update", lambda: self.weights.update(version))
        self.replicas.publish()
        if self.segments.cuts:
            self.segments.cuts.updated()

    def _load(self, command: Load) -> None:
        self.journal.begin("load", 0, command.num_batches)
        with self.transport.writing(self.number, together=True):
            self.weights.load(command.state)
            self.replicas.load(command.state)
            if command.saved:
                give_back(command.saved, self.weights)
            self.num_batches = command.num_batches - self.weights.number
        if self.segments.cuts:
            self.segments.cuts.take()
