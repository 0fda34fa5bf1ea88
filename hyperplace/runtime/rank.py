"""One part: it follows commands, runs segments as the schedule says, and tells what has come of it.

A rank knows its own part of the program, its row of the schedule, its weights, and its end of a transport; of other
parts it knows what they send. What it has to say goes out as values, so it may live in any thread or process.
"""

import queue
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

import torch
from torch import Tensor

from hyperplace.runtime.clipping import SharedNorm
from hyperplace.runtime.commands import Command, Load, Predict, Tick, Update
from hyperplace.runtime.criterion import JUDGED, PiecewiseLoss, check_reach
from hyperplace.runtime.journal import Journal
from hyperplace.runtime.offload import edges_of, offloading
from hyperplace.runtime.options import Options
from hyperplace.runtime.passes import InFlight, Root, Roots, check_finite, nothing_saved
from hyperplace.runtime.pieces import cut
from hyperplace.runtime.precision import within
from hyperplace.runtime.progress import Event, Fault, Finished, Lost, Predicted
from hyperplace.runtime.replicas import Replicas
from hyperplace.runtime.runnable import Part
from hyperplace.runtime.saved import give_back
from hyperplace.runtime.transport import BACKWARD, FORWARD, Endpoint, Stopped
from hyperplace.runtime.weights import Version, Weights
from hyperplace.values.program import Feed, Keep, Message, Output, Program, Receive, Segment, Send
from hyperplace.values.ranges import parse_ranges
from hyperplace.values.schedule import FORWARD as RUN_FORWARD
from hyperplace.values.schedule import NORM, PASS, RELAY, UPDATE, Action


class Cuts(Protocol):
    """Who takes copies of what a part has; buddies.py has the one there is."""

    def before(self, batch: int) -> None:
        """Take note that a segment of a mini-batch is about to run forward."""

    def after(self, batch: int) -> None:
        """Take note that it has."""

    def updated(self) -> None:
        """Take note of an update."""

    def take(self) -> None:
        """Take a copy now."""


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
        self.table, self._messages = program.parts[self.number], program.messages
        self._segments = self.table.segments
        self._actions, self._endpoint, self._norm = actions, endpoint, norm
        self._options, self._tell = options, tell
        self._kinds = {action.kind for action in actions}
        self._in_flight: dict[int, InFlight] = {}
        self._to_relay: dict[int, int] = {}  # by tick, the mini-batches whose weights have yet to be passed on
        self._piecewise = PiecewiseLoss(options.loss)
        self.cuts: Cuts | None = None  # where copies are kept for the case that a host is lost

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
        return self._endpoint.transport.is_stopped

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
                self._predict(command)
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
            if action.kind == RUN_FORWARD:
                self._forward(live, action.segment)
            elif action.kind == NORM:
                self._gather(live)
            elif action.kind == UPDATE:
                self._close(tick.number - action.offset)
            else:
                self._backward(live, action.segment)
                live.num_backward += 1
                if live.num_backward == len(self._segments):
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
        with self._endpoint.transport.writing(self.number, together=self._options.updates_together):
            self.journal.timed("update", lambda: self.weights.update(version))
        self.replicas.publish()
        if self.cuts:
            self.cuts.updated()

    def _load(self, command: Load) -> None:
        self.journal.begin("load", 0, command.num_batches)
        with self._endpoint.transport.writing(self.number, together=True):
            self.weights.load(command.state)
            self.replicas.load(command.state)
            if command.saved:
                give_back(command.saved, self.weights)
            self.num_batches = command.num_batches - self.weights.number
        if self.cuts:
            self.cuts.take()

    def _forward(self, live: InFlight, index: int) -> None:
        segment = self._segments[index]
        self.journal.begin("forward", index, live.batch.number)
        arguments = self._prepare(live, index)
        if self.cuts:
            self.cuts.before(live.batch.number)
        results = self.journal.timed("forward", lambda: self._run(live, index, arguments))
        if self.cuts:
            self.cuts.after(live.batch.number)
        if self._options.check_nan:
            check_finite(results, lambda: self._call(live, index, arguments))
        live.runs[index] = (arguments, _roots(segment, results))
        for give, result in zip(segment.gives, results, strict=True):
            if isinstance(give, Keep):
                live.values[give.name] = result
            elif isinstance(give, Send):
                self._send(live, self._messages[give.message], result.detach())
        if any(isinstance(give, Output) for give in segment.gives):
            self.journal.timed("loss", lambda: self._lose(live, segment, results))

    def _send(self, live: InFlight, message: Message, tensor: Tensor) -> None:
        self._endpoint.send(live.batch.number, FORWARD, message.number, message.target, tensor, planned=message.planned)

    def _prepare(self, live: InFlight, index: int) -> list[Tensor]:
        """Return a segment's arguments, with the part told about the mini-batch's rows and its own weights."""
        self.part.num_rows, self.part.step = live.batch.num_rows, ("", "")
        used = self.table.weights_of(index)
        self.replicas.show(live.version, self.replicas.in_time(used))
        self.weights.show(live.version, [name for name in used if name in self.weights.parameters])
        return [self._argument(live, take) for take in self._segments[index].takes]

    def _run(self, live: InFlight, index: int, arguments: list[Tensor]) -> list[Tensor]:
        """Run a segment forward; one that will be run again leaves nothing behind but what that needs."""
        if self._segments[index].offloads:
            leaves, used = live.version.leaves, self.table.weights_of(index)
            with offloading(lambda: [*arguments, *(leaves[name] for name in used if name in leaves)]):
                return self._call(live, index, arguments)
        if not self._segments[index].recomputes:
            return self._call(live, index, arguments)
        live.buffers[index] = {name: self.weights.buffers[name].clone() for name in self.table.buffers_of(index)}
        with nothing_saved():
            results = self._call(live, index, arguments)
        return [result.detach().requires_grad_(result.requires_grad) for result in results]

    def _run_again(self, live: InFlight, index: int, arguments: list[Tensor]) -> list[Tensor]:
        """Run a segment forward as it ran before: on the same rows, with the same weights, buffers, random numbers.

        What it writes to buffers, it wrote the first time.
        """
        self.part.num_rows, self.part.step = live.batch.num_rows, ("", "")
        self.part.see(live.buffers.pop(index))
        try:
            return self._call(live, index, arguments)
        finally:
            self.part.see(self.weights.buffers)

    def _call(self, live: InFlight, index: int, arguments: list[Tensor]) -> list[Tensor]:
        """Run a segment's method with the mini-batch's weights and its own random numbers.

        New versions of other parts' weights may be on their way still. Each is waited for by the layer that uses it, so
        that the first layers of data parallelism compute while the network brings the last.
        """
        late = [name for name in self.table.weights_of(index) if name not in live.version.leaves]
        self.part.see(live.version.leaves)
        self.part.expect(late, partial(self._fetched, live.version))
        lot = live.batch.number if live.batch.lot is None else live.batch.lot
        self.part.generator.manual_seed(_seed(self._options.seed, lot, self.number, index))
        method = getattr(self.part, self._segments[index].name)
        try:
            with within(live.batch.autocasts):
                results = list(method(*arguments))
        finally:
            self.part.expect((), None)  # a part that knows its rank would keep it
        self.replicas.show(live.version, late)  # whatever a layer did not ask for after all
        return results

    def _fetched(self, version: Version, name: str) -> Tensor:
        self.replicas.show(version, (name,))
        return version.leaves[name]

    def _argument(self, live: InFlight, take: Feed | Receive | Keep) -> Tensor:
        """Return what a segment takes, cut off from what made it: gradients stop here and go on by hand."""
        if isinstance(take, Feed):
            whole = live.batch.inputs[take.number]
            whole = whole if take.rows is None else whole[self.part.rows(*take.rows)]
            if whole.ndim < 2:
                return whole.to(self.part.device)
            every, channels = ((0, whole.shape[0]),), parse_ranges(take.channels, whole.shape[1])
            return cut(whole, (every, channels)).to(self.part.device)
        name = _name(take)
        if isinstance(take, Receive) and name not in live.values:
            message = self._messages[take.message]
            received = self._endpoint.receive(live.batch.number, FORWARD, message.number, message.source)
            assert received is not None, "only gradients may be none"
            live.values[name] = received.requires_grad_(message.learns and _learns(received))
        value = live.values[name]
        return value.detach().requires_grad_(value.requires_grad and torch.is_grad_enabled())

    def _lose(self, live: InFlight, segment: Segment, results: list[Tensor]) -> None:
        """Compute the loss and the gradients of the outputs."""
        outputs = [r for give, r in zip(segment.gives, results, strict=True) if isinstance(give, Output)]
        leaves = [output.detach().requires_grad_(_learns(output)) for output in outputs]
        assert self._options.loss is not None
        self.journal.begin("loss", self.journal.now.segment, live.batch.number)
        JUDGED.batch = live.batch.number
        with within(live.batch.autocasts):
            loss = self._options.loss(leaves, live.batch.target)
            check_reach(loss, leaves)
            self._piecewise.add(leaves, live.batch.target, loss, live.batch.share)
        if self._options.check_nan and not torch.isfinite(loss).all():
            raise FloatingPointError(f"the loss is {loss.item()}")
        (loss * live.batch.share if live.batch.share != 1.0 else loss).backward()  # type: ignore[no-untyped-call]
        live.output_gradients = [leaf.grad for leaf in leaves]
        self._tell(Lost(live.batch.number, loss.detach() * live.batch.share))

    def _backward(self, live: InFlight, index: int) -> None:
        segment = self._segments[index]
        self.journal.begin("backward", index, live.batch.number)
        arguments, results = live.runs.pop(index)
        if segment.recomputes:
            results = self.journal.timed("recompute", lambda: self._run_again(live, index, arguments))
        if live.batch.share == 1.0:  # no other micro-batch has gradients of the same update
            self.replicas.give_early(live.batch.number, live.version, index, to_come=live.runs)
        roots = Roots()
        outputs = iter(live.output_gradients)
        for give, result in zip(segment.gives, results, strict=True):
            if isinstance(give, Keep):
                roots.add(result, live.gradients.pop(give.name, None))
                del live.values[give.name]
            elif isinstance(give, Output):
                roots.add(result, next(outputs))
            elif (message := self._messages[give.message]).learns:
                gradient = self._endpoint.receive(live.batch.number, BACKWARD, message.number, message.target)
                roots.add(result, gradient)
        self.journal.timed("backward", roots.backward)
        for take, argument in zip(segment.takes, arguments, strict=True):
            self._pass_back(live, index, take, argument)

    def _pass_back(self, live: InFlight, index: int, take: Feed | Receive | Keep, argument: Tensor) -> None:
        """Add an argument's gradient to what is known of it; the first segment to take a message answers it."""
        if isinstance(take, Feed):
            return
        name = _name(take)
        if argument.grad is not None:
            before = live.gradients.get(name)
            live.gradients[name] = argument.grad if before is None else before + argument.grad
        if isinstance(take, Receive) and self.table.first_takers[take.message] == index:
            del live.values[name]
            message = self._messages[take.message]
            if message.learns:
                gradient = live.gradients.pop(name, None)
                self._endpoint.send(
                    live.batch.number,
                    BACKWARD,
                    message.number,
                    message.source,
                    gradient,
                    like=argument,
                    planned=message.planned,
                )

    def _predict(self, command: Predict) -> None:
        """Run all segments forward without gradients."""
        self.part.training = command.training
        self.journal.begin("forward", 0, command.batch.number)
        self.replicas.renew()
        live = InFlight(command.batch, Version())
        outputs: list[Tensor] = []
        try:
            with torch.no_grad():
                for index, segment in enumerate(self._segments):
                    self.journal.begin("forward", index, command.batch.number)
                    results = self._call(live, index, self._prepare(live, index))
                    for give, result in zip(segment.gives, results, strict=True):
                        if isinstance(give, Keep):
                            live.values[give.name] = result
                        elif isinstance(give, Send):
                            self._send(live, self._messages[give.message], result)
                        else:
                            outputs.append(result)
        finally:
            self.part.training = True
        if command.training:
            self.weights.finish_buffers()
        if outputs:
            self._tell(Predicted(tuple(outputs)))
        self._tell(Finished(self.number))


def _roots(segment: Segment, results: list[Tensor]) -> Sequence[Root]:
    """Return what a backward pass will start from, as far as the forward pass leaves it."""
    if segment.recomputes:
        return []
    return edges_of(results) if segment.offloads else results


def _learns(value: Tensor) -> bool:
    """Say whether a value can have a gradient."""
    return value.is_floating_point() or value.is_complex()


def _name(take: Receive | Keep) -> str | int:
    return take.message if isinstance(take, Receive) else take.name


def _seed(seed: int, batch: int, part: int, segment: int) -> int:
    """Return a seed of its own for every segment run; primes keep neighbours apart."""
    return (seed * 1_000_003 + batch * 7_919 + part * 104_729 + segment * 31) % 2**63
