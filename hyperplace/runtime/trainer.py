"""Train a generated program: a thread per part, mini-batches in flight, and the model's own state dict in and out."""

import os
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from hyperplace.errors import TrainingError, UsageError
from hyperplace.runtime.board import Board
from hyperplace.runtime.clipping import SharedNorm
from hyperplace.runtime.criterion import check_loss
from hyperplace.runtime.devices import device_faults
from hyperplace.runtime.loans import borrowers, delays, find_loans, updaters
from hyperplace.runtime.losses import Loss
from hyperplace.runtime.optimizers import check_optimizers
from hyperplace.runtime.orders import Batch, Order, Predict, Tick, Update
from hyperplace.runtime.post import Post
from hyperplace.runtime.precision import autocasts
from hyperplace.runtime.replicas import Replicas
from hyperplace.runtime.schedule import Schedule, schedule
from hyperplace.runtime.state import StateNames, assembled
from hyperplace.runtime.structure import filled, flattened
from hyperplace.runtime.table import Program
from hyperplace.runtime.weights import Staleness, Training, Weights
from hyperplace.runtime.worker import Options, Worker, start
from hyperplace.values.arguments import count_faults
from hyperplace.values.timeline import Event, Timeline

SCHEDULES = ("async", "sync")
UPDATE, PREDICTION = -1, -2  # instead of a batch's number
JOIN_S = 4.5  # how long to wait for threads to end


@dataclass(frozen=True)
class RunSettings:
    """How mini-batches flow.

    async: up to `in_flight` mini-batches under way, each part updates right after its own backward pass, or, if others
    have copies of its weights, after theirs. sync: every mini-batch is cut into `micro_batches`, of which up to
    `in_flight` are under way, then one update.
    """

    schedule: str = "async"
    in_flight: int = 4
    micro_batches: int = 1
    seed: int = 0
    devices: tuple[str, ...] = ()  # one per part; all on the CPU by default
    threads: int | None = None  # intra-op threads of every part; the cores shared out by default
    check_nan: bool = False
    record: bool = False  # keep a timeline

    def __post_init__(self) -> None:
        if faults := list(self._faults()):
            raise UsageError("; ".join(faults))

    def _faults(self) -> Iterator[str]:
        if self.schedule not in SCHEDULES:
            yield f"schedule {self.schedule!r} is unknown; choose one of {', '.join(SCHEDULES)}"
        yield from count_faults("in_flight", self.in_flight)
        yield from count_faults("micro_batches", self.micro_batches)
        yield from count_faults("seed", self.seed, least=0)
        if self.threads is not None:
            yield from count_faults("threads", self.threads)
        if self.schedule == "async" and self.micro_batches != 1:
            yield "micro_batches are for the sync schedule; async overlaps whole mini-batches"
        for device in self.devices:
            yield from device_faults("devices:", device)


class Trainer:
    """A program being trained; use it in a `with` block, so that its threads end."""

    def __init__(
        self,
        program: Program,
        state: Mapping[str, Tensor],
        *,
        training: Training,
        loss: Callable[..., Tensor],
        settings: RunSettings | None = None,
        names: StateNames | None = None,
        evaluate: Callable[..., Any] | None = None,
    ) -> None:
        check_loss(loss)
        self.program, self.settings = program, settings or RunSettings()
        num_parts = len(program.parts)
        devices = self.settings.devices or ("cpu",) * num_parts
        if len(devices) != num_parts:
            raise UsageError(f"{len(devices)} devices for {num_parts} parts; give one for each")
        self._names, self._evaluate = names or StateNames(), evaluate
        self._base = self._names.known(state, program)
        parts = [kind(device, program.batch) for kind, device in zip(program.parts, devices, strict=True)]
        loans = find_loans(parts)
        is_async = self.settings.schedule == "async"
        owners = updaters(parts, loans)
        lenders = borrowers(loans) if training.clip_norm is None else owners
        self.schedule: Schedule = schedule(
            [part.segments for part in parts],
            self.settings.in_flight,
            lenders if is_async else {},  # sync: all parts update on an order of their own
            with_norms=training.clip_norm is not None,
        )
        delay_of = delays(loans, parts, self.schedule) if is_async else {}
        self._post, self._board = Post(num_parts), Board(num_parts)
        self._board.on_stop = self._post.stop  # type: ignore[method-assign]
        options = Options(
            loss=lambda outputs, target: loss(filled(program, outputs), target),
            updates_at_once=is_async,
            seed=self.settings.seed,
            threads=self.settings.threads or max(1, (os.cpu_count() or 1) // num_parts),
            check_nan=self.settings.check_nan,
            record=self.settings.record,
        )
        self.workers = []
        for number, part in enumerate(parts):
            weights = Weights(part, self._base, training)
            replicas = Replicas(number, part, weights, self._post, loans=loans, delays=delay_of)
            replicas.load(self._base)
            norm = None
            if training.clip_norm is not None and number in owners:
                norm = SharedNorm(number, owners, weights, self._post, most=training.clip_norm)
            actions = self.schedule.actions[number]
            self.workers.append(
                Worker(number, part, weights, replicas, actions, self._post, self._board, options, norm)
            )
        check_optimizers([worker.weights for worker in self.workers])
        self.num_batches = 0  # mini-batches given so far
        self._tick = self._num_predictions = 0
        self._under_way: list[int] = []
        self._threads: list[threading.Thread] = [start(worker) for worker in self.workers]
        self._is_closed = False

    def __enter__(self) -> "Trainer":
        return self

    def __exit__(self, kind: object, *rest: object) -> None:
        if kind is None:
            try:
                self.flush()
            finally:
                self.close()
        else:
            self.close()

    def step(self, *batch: Any) -> Loss:
        """Train on a mini-batch: the model's inputs, then what the loss wants beside the output.

        Returns at once while there is room in flight.
        """
        *given, target = batch
        inputs = flattened(self.program, given)
        self._check(inputs)
        return self._step_sync(inputs, target) if self.settings.schedule == "sync" else self._step_async(inputs, target)

    def _step_async(self, inputs: Sequence[Tensor], target: Any) -> Loss:
        while len(self._under_way) >= self.settings.in_flight:
            self._collect()
        loss = Loss(1, self.flush)
        self._enter(Batch(self.num_batches, tuple(inputs), target, on_loss=loss.add, autocasts=autocasts()))
        self.num_batches += 1
        return loss

    def _step_sync(self, inputs: Sequence[Tensor], target: Any) -> Loss:
        rows = inputs[0].shape[0]
        chunks = [x.chunk(self.settings.micro_batches) for x in inputs]
        has_rows = isinstance(target, Tensor) and target.ndim > 0 and target.shape[0] == rows
        targets = target.chunk(self.settings.micro_batches) if has_rows else [target]
        if len(targets) != len(chunks[0]):
            raise UsageError("micro-batches need a target that is a tensor with a row for every row of the input")
        loss = Loss(len(targets), self.flush)
        first = self.num_batches * self.settings.micro_batches
        casts = autocasts()
        micro_batches = [
            Batch(first + number, pieces, targets[number], pieces[0].shape[0] / rows, loss.add, casts)
            for number, pieces in enumerate(zip(*chunks, strict=True))
        ]
        try:
            for batch in micro_batches:
                while len(self._under_way) >= self.settings.in_flight:
                    self._collect()
                self._enter(batch)
            self.flush()
        except BaseException:
            self.close()  # some micro-batches' gradients are there and others not: no update may use them
            raise
        self.num_batches += 1
        self._finish(Update(UPDATE, micro_batches[-1].number), UPDATE)
        return loss

    def _enter(self, batch: Batch) -> None:
        """Begin a tick with a new batch."""
        self._under_way.append(batch.number)
        self._order(Tick(self._tick, batch))
        self._tick += 1

    def _finish(self, order: Order, number: int) -> None:
        """Give an order and wait until it is done; after an interrupt it is still under way, and waited for later."""
        self._under_way.append(number)
        self._order(order)
        self._collect()

    def _collect(self) -> None:
        """Wait for the oldest batch under way."""
        self._board.wait_for(self._under_way[0])
        self._board.forget(self._under_way.pop(0))

    def _order(self, order: Order) -> None:
        if self._is_closed:
            raise TrainingError("the trainer is closed; make another")
        self._board.raise_fault()
        for worker in self.workers:
            worker.orders.put(order)

    def flush(self) -> None:
        """Finish all mini-batches under way."""
        if not self._under_way:
            return
        for _ in range(self.schedule.depth):
            self._order(Tick(self._tick))
            self._tick += 1
        while self._under_way:
            self._collect()

    def predict(self, *given: Any, training: bool = False) -> Any:
        """Return the model's outputs without learning; in evaluation mode unless `training`, with new masks."""
        if not (training or self.program.predicts):
            return self._evaluated(given)
        inputs = flattened(self.program, given)
        self._check(inputs)
        self.flush()
        self._num_predictions += 1
        batch = Batch(PREDICTION, tuple(inputs), autocasts=autocasts(), lot=-self._num_predictions)
        self._finish(Predict(batch, training), PREDICTION)
        return filled(self.program, self._board.take_outputs(PREDICTION))

    def _evaluated(self, given: Sequence[Any]) -> Any:
        """Return what the unsplit model makes of the inputs, where evaluation mode is not what the parts run."""
        if self._evaluate is None:
            raise UsageError(
                f"{self.program.name} does something else in evaluation mode than in training, so it cannot predict; "
                "load the state dict into the model and use that, or give training=True"
            )
        self._settle()
        return self._evaluate(assembled(self._base, self._held()), given)

    def _check(self, inputs: Sequence[Any]) -> None:
        """Refuse inputs of other shapes than the program's before any part has seen them."""
        wanted = self.program.inputs
        shapes = [tuple(x.shape) if isinstance(x, Tensor) else type(x).__name__ for x in inputs]
        if len(inputs) != len(wanted) or any(s[1:] != w for s, w in zip(shapes, wanted, strict=False)):
            shown = " and ".join(f"(rows, {', '.join(map(str, shape))})" for shape in wanted)
            raise UsageError(f"{self.program.name} wants inputs of shape {shown}, not {shapes}")
        rows = {shape[0] for shape in shapes}
        if len(rows) != 1 or 0 in rows:
            raise UsageError(f"the inputs of a mini-batch must have the same number of rows, at least 1, not {shapes}")
        self._check_rows(rows.pop())

    def _check_rows(self, rows: Any) -> None:
        fewest, most = self.program.rows
        if rows < fewest or (most is not None and rows > most):
            span = f"{fewest}" if fewest == most else f"{fewest} or more" if most is None else f"{fewest} to {most}"
            raise UsageError(
                f"{self.program.name} does something else with {rows} rows than it was captured with: it takes {span}; "
                "make the model's code the same for any number of rows, or plan with this one"
            )

    def state_dict(self) -> dict[str, Tensor]:
        """Return parameters and buffers by the model's own names; after a fault, those of the last finished updates."""
        self._settle()
        return self._names.shown(assembled(self._base, self._held()))

    def averaged_state_dict(self) -> dict[str, Tensor]:
        """Return the averaged weights, with the buffers as they are."""
        self._settle()
        held = [(worker.part, {**worker.weights.averaged(), **worker.weights.buffers}) for worker in self.workers]
        return self._names.shown(assembled(self._base, held))

    def _held(self) -> list[Any]:
        return [(w.part, {**w.weights.parameters, **w.weights.buffers}) for w in self.workers]

    def _settle(self) -> None:
        """Finish what is under way; after a fault wait until no worker writes any more."""
        if self._board.fault is None and not self._is_closed:
            self.flush()
        else:
            self.close()

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Take the parameters and buffers of a state dict of the model, whatever the plan it comes from."""
        self.flush()
        state = self._names.completed(state, self._base)
        missing = sorted(set(self._base) - set(state))
        if missing:
            raise UsageError(f"the state dict has no {missing[0]!r}; it belongs to another model")
        for name, tensor in self._base.items():
            if state[name].shape != tensor.shape:
                shapes = f"{tuple(state[name].shape)}, not {tuple(tensor.shape)}"
                raise UsageError(f"the state dict's {name!r} is {shapes}; it belongs to another model")
        self._base = {name: state[name].detach().cpu().clone() for name in self._base}
        for worker in self.workers:
            worker.weights.load(self._base)
            worker.replicas.load(self._base)

    @property
    def staleness(self) -> list[Staleness]:
        """How many updates came between the oldest weights seen and a mini-batch's own update, per part."""
        return [worker.weights.staleness for worker in self.workers]

    def moved_bytes(self, *, planned: bool = True) -> Counter[tuple[str, int, int]]:
        """Return the bytes moved so far by (way, source, target).

        The ways are "forward" and "backward", and for copies of weights "gradients" to the owner and "weights" from it.
        What brings outputs to the loss, and the "norms" of `clip_norm`, are counted apart: `planned=False`.
        """
        self.flush()
        return self._post.moved_bytes(planned=planned)

    def timeline(self) -> Timeline:
        """Return what every worker did when; needs `record`."""
        self.flush()
        records = [(worker, record) for worker in self.workers for record in worker.records]
        begin = min((record[3] for _, record in records), default=0)
        events = [
            Event(
                worker.number,
                kind,
                _label(worker, kind, index),
                batch,
                (start_ns - begin) / 1e3,
                (stop_ns - begin) / 1e3,
            )
            for worker, (kind, index, batch, start_ns, stop_ns) in records
        ]
        return Timeline(len(self.workers), tuple(events))

    def close(self) -> None:
        """End all threads; the weights stay readable."""
        if self._is_closed:
            return
        self._is_closed = True
        self._board.is_stopped = True
        self._post.stop()
        for worker in self.workers:
            worker.orders.put(None)
        deadline = time.monotonic() + JOIN_S
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        for worker, thread in zip(self.workers, self._threads, strict=True):
            if thread.is_alive():
                warnings.warn(f"{thread.name} is still in a long operation, and ends after it", stacklevel=2)
            else:
                worker.weights.discard()
        self._post.clear()
        self._under_way.clear()


def _label(worker: Worker, kind: str, index: int) -> str:
    layers = worker.part.segments[index].layers if worker.part.segments else ()
    if kind == "update" or not layers:
        return kind
    return layers[0] if len(layers) == 1 else f"{layers[0]} .. {layers[-1]}"
