"""The segments of one part: run forward, backward, or without gradients, with what they take, give and keep.

A rank says which of them, for which mini-batch; what they need of others is waited for here.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

import torch
from torch import Tensor

from hyperplace.runtime.commands import Predict
from hyperplace.runtime.criterion import JUDGED, PiecewiseLoss, check_reach
from hyperplace.runtime.journal import Journal
from hyperplace.runtime.offload import edges_of, offloading
from hyperplace.runtime.options import Options
from hyperplace.runtime.passes import InFlight, Root, Roots, check_finite, nothing_saved
from hyperplace.runtime.pieces import cut
from hyperplace.runtime.precision import within
from hyperplace.runtime.progress import Event, Finished, Lost, Predicted
from hyperplace.runtime.replicas import Replicas
from hyperplace.runtime.runnable import Part
from hyperplace.runtime.transport import BACKWARD, FORWARD, Endpoint
from hyperplace.runtime.weights import Version, Weights
from hyperplace.values.program import Feed, Keep, Message, Output, Program, Receive, Segment, Send
from hyperplace.values.ranges import parse_ranges


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


class Segments:
    """Run the segments of a part: `part` has their code, the program their tables."""

    def __init__(
        self,
        program: Program,
        part: Part,
        endpoint: Endpoint,
        *,
        weights: Weights,
        replicas: Replicas,
        journal: Journal,
        options: Options,
        tell: Callable[[Event], None],
    ) -> None:
        self._part, self._endpoint, self._weights, self._replicas = part, endpoint, weights, replicas
        self._table, self._messages = program.parts[endpoint.part], program.messages
        self._segments = self._table.segments
        self._journal, self._options, self._tell = journal, options, tell
        self._piecewise = PiecewiseLoss(options.loss)
        self.cuts: Cuts | None = None  # where copies are kept for the case that a host is lost

    def forward(self, live: InFlight, index: int) -> None:
        """Run a segment forward once what it takes is there, and send what others wait for."""
        segment = self._segments[index]
        self._journal.begin("forward", index, live.batch.number)
        arguments = self._prepare(live, index)
        if self.cuts:
            self.cuts.before(live.batch.number)
        results = self._journal.timed("forward", lambda: self._run(live, index, arguments))
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
            self._journal.timed("loss", lambda: self._lose(live, segment, results))

    def _send(self, live: InFlight, message: Message, tensor: Tensor) -> None:
        self._endpoint.send(live.batch.number, FORWARD, message.number, message.target, tensor, planned=message.planned)

    def _prepare(self, live: InFlight, index: int) -> list[Tensor]:
        """Return a segment's arguments, with the part told about the mini-batch's rows and its own weights."""
        self._part.num_rows, self._part.step = live.batch.num_rows, ("", "")
        used = self._table.weights_of(index)
        self._replicas.show(live.version, self._replicas.in_time(used))
        self._weights.show(live.version, [name for name in used if name in self._weights.parameters])
        return [self._argument(live, take) for take in self._segments[index].takes]

    def _run(self, live: InFlight, index: int, arguments: list[Tensor]) -> list[Tensor]:
        """Run a segment forward; one that will be run again leaves nothing behind but what that needs."""
        if self._segments[index].offloads:
            leaves, used = live.version.leaves, self._table.weights_of(index)
            with offloading(lambda: [*arguments, *(leaves[name] for name in used if name in leaves)]):
                return self._call(live, index, arguments)
        if not self._segments[index].recomputes:
            return self._call(live, index, arguments)
        live.buffers[index] = {name: self._weights.buffers[name].clone() for name in self._table.buffers_of(index)}
        with nothing_saved():
            results = self._call(live, index, arguments)
        return [result.detach().requires_grad_(result.requires_grad) for result in results]

    def _run_again(self, live: InFlight, index: int, arguments: list[Tensor]) -> list[Tensor]:
        """Run a segment forward as it ran before: on the same rows, with the same weights, buffers, random numbers.

        What it writes to buffers, it wrote the first time.
        """
        self._part.num_rows, self._part.step = live.batch.num_rows, ("", "")
        self._part.see(live.buffers.pop(index))
        try:
            return self._call(live, index, arguments)
        finally:
            self._part.see(self._weights.buffers)

    def _call(self, live: InFlight, index: int, arguments: list[Tensor]) -> list[Tensor]:
        """Run a segment's method with the mini-batch's weights and its own random numbers.

        New versions of other parts' weights may be on their way still. Each is waited for by the layer that uses it, so
        that the first layers of data parallelism compute while the network brings the last.
        """
        late = [name for name in self._table.weights_of(index) if name not in live.version.leaves]
        self._part.see(live.version.leaves)
        self._part.expect(late, partial(self._fetched, live.version))
        lot = live.batch.number if live.batch.lot is None else live.batch.lot
        self._part.generator.manual_seed(_seed(self._options.seed, lot, self._endpoint.part, index))
        method = getattr(self._part, self._segments[index].name)
        try:
            with within(live.batch.autocasts):
                results = list(method(*arguments))
        finally:
            self._part.expect((), None)  # a part that knows its rank would keep it
        self._replicas.show(live.version, late)  # whatever a layer did not ask for after all
        return results

    def _fetched(self, version: Version, name: str) -> Tensor:
        self._replicas.show(version, (name,))
        return version.leaves[name]

    def _argument(self, live: InFlight, take: Feed | Receive | Keep) -> Tensor:
        """Return what a segment takes, cut off from what made it: gradients stop here and go on by hand."""
        if isinstance(take, Feed):
            whole = live.batch.inputs[take.number]
            whole = whole if take.rows is None else whole[self._part.rows(*take.rows)]
            if whole.ndim < 2:
                return whole.to(self._part.device)
            every, channels = ((0, whole.shape[0]),), parse_ranges(take.channels, whole.shape[1])
            return cut(whole, (every, channels)).to(self._part.device)
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
        self._journal.begin("loss", self._journal.now.segment, live.batch.number)
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

    def backward(self, live: InFlight, index: int) -> None:
        """Run a segment backward once the gradients of what it gave are there, and send those of what it took."""
        segment = self._segments[index]
        self._journal.begin("backward", index, live.batch.number)
        arguments, results = live.runs.pop(index)
        if segment.recomputes:
            results = self._journal.timed("recompute", lambda: self._run_again(live, index, arguments))
        if live.batch.share == 1.0:  # no other micro-batch has gradients of the same update
            self._replicas.give_early(live.batch.number, live.version, index, to_come=live.runs)
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
        self._journal.timed("backward", roots.backward)
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
        if isinstance(take, Receive) and self._table.first_takers[take.message] == index:
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

    def predict(self, command: Predict) -> None:
        """Run all segments forward without gradients."""
        self._part.training = command.training
        self._journal.begin("forward", 0, command.batch.number)
        self._replicas.renew()
        live = InFlight(command.batch, Version())
        outputs: list[Tensor] = []
        try:
            with torch.no_grad():
                for index, segment in enumerate(self._segments):
                    self._journal.begin("forward", index, command.batch.number)
                    results = self._call(live, index, self._prepare(live, index))
                    for give, result in zip(segment.gives, results, strict=True):
                        if isinstance(give, Keep):
                            live.values[give.name] = result
                        elif isinstance(give, Send):
                            self._send(live, self._messages[give.message], result)
                        else:
                            outputs.append(result)
        finally:
            self._part.training = True
        if command.training:
            self._weights.finish_buffers()
        if outputs:
            self._tell(Predicted(tuple(outputs)))
        self._tell(Finished(self._endpoint.part))


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
