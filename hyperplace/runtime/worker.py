"""One part's thread: it takes orders from a queue, runs segments as the schedule says, and answers on the board."""

import queue
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor

from hyperplace.runtime.board import Board, Fault
from hyperplace.runtime.clipping import SharedNorm
from hyperplace.runtime.criterion import PiecewiseLoss, check_reach
from hyperplace.runtime.finite import check_finite
from hyperplace.runtime.gate import Gate
from hyperplace.runtime.live import Live, Roots
from hyperplace.runtime.orders import Load, Order, Predict, Tick, Update
from hyperplace.runtime.part import Part
from hyperplace.runtime.post import BACKWARD, FORWARD, Key, Post, Stopped
from hyperplace.runtime.precision import within
from hyperplace.runtime.replicas import Replicas
from hyperplace.runtime.schedule import FORWARD as RUN_FORWARD
from hyperplace.runtime.schedule import NORM, UPDATE, Action
from hyperplace.runtime.table import Feed, Keep, Output, Receive, Segment, Send, cut, parse_index
from hyperplace.runtime.weights import Version, Weights

T = TypeVar("T")
Loss = Callable[..., Tensor]
Record = tuple[str, int, int, int, int]  # kind, segment, mini-batch, start and end in ns


@dataclass(frozen=True)
class Options:
    """What all workers of a run have in common."""

    loss: Loss | None
    updates_at_once: bool  # async: update right after the backward pass of a mini-batch
    updates_together: bool  # no part updates before all are ready to: all have the same number of updates
    seed: int
    threads: int
    check_nan: bool
    record: bool


class Worker:
    """Run one part."""

    def __init__(
        self,
        number: int,
        part: Part,
        weights: Weights,
        replicas: Replicas,
        actions: tuple[Action, ...],
        post: Post,
        board: Board,
        gate: Gate,
        options: Options,
        norm: SharedNorm | None = None,
    ) -> None:
        self.number, self.part, self.weights, self.replicas, self.norm = number, part, weights, replicas, norm
        replicas.take = self._waited
        if norm:
            norm.take = self._waited
        self.orders: queue.SimpleQueue[Order | None] = queue.SimpleQueue()
        self.records: list[Record] = []
        self._actions, self._post, self._board, self._gate, self._options = actions, post, board, gate, options
        self._kinds = {action.kind for action in actions}
        self.num_batches = 0  # before the updates that `weights` counts
        self._live: dict[int, Live] = {}
        self._first_use = _first_uses(part.segments)
        self._used = [part.weights_of(index) for index in range(len(part.segments))]
        self._piecewise = PiecewiseLoss(options.loss)
        self._now: tuple[str, int, int] = ("", 0, 0)  # what is being run: kind, segment, mini-batch

    def run(self) -> None:
        """Follow orders until told to stop; a fault goes to the board, never further."""
        torch.set_num_threads(self._options.threads)
        try:
            while (order := self.orders.get()) is not None and not self._board.is_stopped:
                self._follow(order)
        except Stopped:
            pass
        except BaseException as fault:  # a worker's edge: whatever it is, it must reach the caller
            self._board.fail(Fault.of(self.number, self.part, *self._now, fault))
        finally:
            self._live.clear()

    def _follow(self, order: Order) -> None:
        match order:
            case Tick():
                self._tick(order)
            case Update():
                self._now = ("update", 0, order.batch)
                self.replicas.give(order.batch)
                self._sum(order.batch)
                self._update(order.batch)
                self.replicas.renew()
                self._board.finish(self.number)
            case Predict():
                self._predict(order)
            case Load():
                self._load(order)
                self._board.finish(self.number)

    def _tick(self, tick: Tick) -> None:
        if tick.batch is not None:
            self._live[tick.number] = Live(tick.batch, Version(wants=self.replicas.enter(tick.number)))
            if not self._actions:
                self._finish(tick.number)
        for action in self._actions:
            live = self._live.get(tick.number - action.offset)
            if live is None:
                continue
            if self._board.is_stopped:
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
                if live.num_backward == len(self.part.segments):
                    self._finish(tick.number - action.offset)

    def _finish(self, tick: int) -> None:
        """Pass on the gradients of borrowed weights once all backward segments of a mini-batch are done.

        A part that lends must not wait here for the gradients of others, who may be waiting for it.
        """
        live = self._live[tick]
        self._now = ("update", 0, live.batch.number)
        self.replicas.accumulate(live.version)
        if self._options.updates_at_once:
            self.replicas.give(live.batch.number)
        if UPDATE not in self._kinds:
            self._close(tick)

    def _close(self, tick: int) -> None:
        """Gather a mini-batch's gradients, unless that was an action of its own, and update if it is time."""
        live = self._live.pop(tick)
        if NORM not in self._kinds:
            self._gather(live)
        if self._options.updates_at_once:
            self._update(live.batch.number, live.version)
        self._board.finish(self.number)

    def _gather(self, live: Live) -> None:
        self._now = ("update", 0, live.batch.number)
        self.weights.accumulate(live.version)
        if self._options.updates_at_once:
            self._sum(live.batch.number)

    def _sum(self, batch: int) -> None:
        """Complete the gradients of an update with those of copies, and tell their norm where it is shared."""
        self.replicas.collect(batch)
        if self.norm:
            self.norm.tell(batch)

    def _update(self, batch: int, version: Version | None = None) -> None:
        """Wait for what others must send, then write: whoever writes waits for nobody, so that it surely ends."""
        self._now = ("update", 0, batch)
        if self.norm:
            self.norm.clip(batch)
        with self._gate.writing(self.number, together=self._options.updates_together):
            self._timed("update", 0, batch, lambda: self.weights.update(version))
        self.replicas.publish()

    def _load(self, order: Load) -> None:
        self._now = ("load", 0, order.num_batches)
        with self._gate.writing(self.number, together=True):
            self.weights.load(order.state)
            self.replicas.load(order.state)
            order.restore(self.weights)
            self.num_batches = order.num_batches - self.weights.number

    def _forward(self, live: Live, index: int) -> None:
        segment = self.part.segments[index]
        self._now = ("forward", index, live.batch.number)
        arguments = self._prepare(live, index)
        results = self._timed("forward", index, live.batch.number, lambda: self._call(live, index, arguments))
        if self._options.check_nan:
            check_finite(results, lambda: self._call(live, index, arguments))
        live.runs[index] = (arguments, results)
        for give, result in zip(segment.gives, results, strict=True):
            if isinstance(give, Keep):
                live.values[give.name] = result
            elif isinstance(give, Send):
                self._post.put(self._key(live, FORWARD, give), result.detach(), planned=give.planned)
        if any(isinstance(give, Output) for give in segment.gives):
            self._timed("loss", index, live.batch.number, lambda: self._lose(live, segment, results))

    def _prepare(self, live: Live, index: int) -> list[Tensor]:
        """Return a segment's arguments, with the part told about the mini-batch's rows and the weights it sees."""
        self.part.num_rows = live.batch.num_rows
        self.replicas.show(live.version, self._used[index])
        self.weights.show(live.version, self._used[index])
        return [self._argument(live, take) for take in self.part.segments[index].takes]

    def _call(self, live: Live, index: int, arguments: list[Tensor]) -> list[Tensor]:
        """Run a segment's method with the mini-batch's weights and its own random numbers."""
        self.part.see(live.version.leaves)
        lot = live.batch.number if live.batch.lot is None else live.batch.lot
        self.part.generator.manual_seed(_seed(self._options.seed, lot, self.number, index))
        method = getattr(self.part, self.part.segments[index].name)
        with within(live.batch.autocasts):
            return list(method(*arguments))

    def _argument(self, live: Live, take: Feed | Receive | Keep) -> Tensor:
        """Return what a segment takes, cut off from what made it: gradients stop here and go on by hand."""
        if isinstance(take, Feed):
            whole = live.batch.inputs[take.number]
            whole = whole if take.rows is None else whole[self.part.rows(*take.rows)]
            if whole.ndim < 2:
                return whole.to(self.part.device)
            spans = parse_index(f":, {take.channels}", tuple(whole.shape))
            return cut(whole, spans).to(self.part.device)
        name = _name(take)
        if isinstance(take, Receive) and name not in live.values:
            received = self._waited(self._key(live, FORWARD, take))
            live.values[name] = received.requires_grad_(take.learns and _learns(received))
        value = live.values[name]
        return value.detach().requires_grad_(value.requires_grad and torch.is_grad_enabled())

    def _lose(self, live: Live, segment: Segment, results: list[Tensor]) -> None:
        """Compute the loss and the gradients of the outputs."""
        outputs = [r for give, r in zip(segment.gives, results, strict=True) if isinstance(give, Output)]
        leaves = [output.detach().requires_grad_(_learns(output)) for output in outputs]
        assert self._options.loss is not None
        self._now = ("loss", self._now[1], live.batch.number)
        with within(live.batch.autocasts):
            loss = self._options.loss(leaves, live.batch.target)
            check_reach(loss, leaves)
            self._piecewise.add(leaves, live.batch.target, loss, live.batch.share)
        if self._options.check_nan and not torch.isfinite(loss).all():
            raise FloatingPointError(f"the loss is {loss.item()}")
        (loss * live.batch.share if live.batch.share != 1.0 else loss).backward()  # type: ignore[no-untyped-call]
        live.output_gradients = [leaf.grad for leaf in leaves]
        live.batch.on_loss(loss.detach() * live.batch.share)

    def _backward(self, live: Live, index: int) -> None:
        segment = self.part.segments[index]
        self._now = ("backward", index, live.batch.number)
        arguments, results = live.runs.pop(index)
        roots = Roots()
        outputs = iter(live.output_gradients)
        for give, result in zip(segment.gives, results, strict=True):
            if isinstance(give, Keep):
                roots.add(result, live.gradients.pop(give.name, None))
                del live.values[give.name]
            elif isinstance(give, Output):
                roots.add(result, next(outputs))
            elif give.learns:
                roots.add(result, self._waited(self._key(live, BACKWARD, give)))
        self._timed("backward", index, live.batch.number, roots.backward)
        for take, argument in zip(segment.takes, arguments, strict=True):
            self._pass_back(live, index, take, argument)

    def _pass_back(self, live: Live, index: int, take: Feed | Receive | Keep, argument: Tensor) -> None:
        """Add an argument's gradient to what is known of it; the first segment to take a message answers it."""
        if isinstance(take, Feed):
            return
        name = _name(take)
        if argument.grad is not None:
            before = live.gradients.get(name)
            live.gradients[name] = argument.grad if before is None else before + argument.grad
        if isinstance(take, Receive) and self._first_use[name] == index:
            del live.values[name]
            if take.learns:
                gradient = live.gradients.pop(name, None)
                self._post.put(self._key(live, BACKWARD, take), gradient, like=argument, planned=take.planned)

    def _predict(self, order: Predict) -> None:
        """Run all segments forward without gradients."""
        self.part.training = order.training
        self._now = ("forward", 0, order.batch.number)
        self.replicas.renew()
        live = Live(order.batch, Version())
        outputs: list[Tensor] = []
        try:
            with torch.no_grad():
                for index, segment in enumerate(self.part.segments):
                    self._now = ("forward", index, order.batch.number)
                    results = self._call(live, index, self._prepare(live, index))
                    for give, result in zip(segment.gives, results, strict=True):
                        if isinstance(give, Keep):
                            live.values[give.name] = result
                        elif isinstance(give, Send):
                            self._post.put(self._key(live, FORWARD, give), result, planned=give.planned)
                        else:
                            outputs.append(result)
        finally:
            self.part.training = True
        if order.training:
            self.weights.finish_buffers()
        if outputs:
            self._board.put_outputs(outputs)
        self._board.finish(self.number)

    def _key(self, live: Live, way: str, end: Receive | Send) -> Key:
        """Return the key of a message that this part sends or receives, forward or backward."""
        other = end.source if isinstance(end, Receive) else end.target
        sends = isinstance(end, Send) == (way == FORWARD)
        source, target = (self.number, other) if sends else (other, self.number)
        return Key(live.batch.number, way, end.name, source, target)

    def _waited(self, key: Key) -> Any:
        _, index, batch = self._now
        found = self._timed("wait", index, batch, lambda: self._post.take(key))
        return None if found is None else found.to(self.part.device)

    def _timed(self, kind: str, index: int, batch: int, work: Callable[[], T]) -> T:
        if not self._options.record or batch < 0:
            return work()
        start = time.perf_counter_ns()
        result = work()
        self.records.append((kind, index, batch, start, time.perf_counter_ns()))
        return result


def _learns(value: Tensor) -> bool:
    """Say whether a value can have a gradient."""
    return value.is_floating_point() or value.is_complex()


def _name(take: Receive | Keep) -> str:
    return f"{take.name} from {take.source}" if isinstance(take, Receive) else take.name


def _first_uses(segments: tuple[Segment, ...]) -> dict[str, int]:
    """Return for every received tensor the first segment that takes it."""
    first: dict[str, int] = {}
    for index, segment in enumerate(segments):
        for take in segment.takes:
            if isinstance(take, Receive):
                first.setdefault(_name(take), index)
    return first


def _seed(seed: int, batch: int, part: int, segment: int) -> int:
    """Return a seed of its own for every segment run; primes keep neighbours apart."""
    return (seed * 1_000_003 + batch * 7_919 + part * 104_729 + segment * 31) % 2**63
