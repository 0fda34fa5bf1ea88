"""Train a habit split and plain, side by side: equal, refused, or a fault.

Three steps of SGD with momentum from the same weights; losses, the whole state dict and predictions in evaluation mode
are compared. Nothing of a case is written by hand but its model.
"""

import copy
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import torch
from habit import BATCH, Habit, flat
from torch import Tensor, nn
from verdicts import Outcome, Trained, faults_between, first_line, raised, same_mean, verdict
from ways import BLOCKS, Way

import hyperplace
from hyperplace import planning
from hyperplace.errors import HyperplaceError, TrainingError

NUM_STEPS = 3
LIMIT_S = 20.0


class Subject:
    """A habit under test: captured, planned and trained plainly once, then run in many ways."""

    def __init__(self, habit: Habit) -> None:
        self.habit = habit
        self._capture = _once(planning.capture, lambda model, sample: _num_rows(sample))
        self._plan = _once(self._planned)
        self._plain = _once(self._trained_plainly)

    def outcome(self, way: Way) -> Outcome:
        """Return what became of a way; nothing is raised but by a second Ctrl-C."""
        try:
            wanted: Trained | Exception = self._plain(way.rows, 1)
        except Exception as fault:  # whatever plain torch says of the model, for these rows
            wanted = fault
        if isinstance(wanted, Trained) and way.micro_batches and not self._is_free_of(way):
            return Outcome("not asked")
        try:
            with _limit(LIMIT_S), mock.patch.object(planning, "capture", self._capture):
                return self._compared(way, wanted)
        except TrainingError as fault:
            return raised(fault) if isinstance(wanted, Trained) else Outcome("plain", first_line(fault))
        except HyperplaceError as fault:
            return Outcome("refused" if isinstance(wanted, Trained) else "plain", first_line(fault))
        except Exception as fault:  # the point of the harness: whatever else is raised is a fault to be told
            return raised(fault)

    def _compared(self, way: Way, wanted: Trained | Exception) -> Outcome:
        if isinstance(wanted, Exception):
            self._trained(way)
            return Outcome("lax", f"trains where plain torch raises {type(wanted).__name__}: {first_line(wanted)}")
        if self.habit.is_random:
            return self._repeated(way)
        found = self._trained(way)
        return verdict(faults_between(found, wanted, self.habit.tolerance))

    def _repeated(self, way: Way) -> Outcome:
        """Compare what holds for random numbers: a run repeats to the bit, and means over many rows agree."""
        (one, means), (other, _) = (self._trained_with_means(way) for _ in range(2))
        return verdict([*faults_between(one, other, 0.0), *means])

    def _trained(self, way: Way) -> Trained:
        with self._compiled(way) as trainer:
            return self._steps(trainer, way.rows)

    def _trained_with_means(self, way: Way) -> tuple[Trained, list[str]]:
        with self._compiled(way) as trainer:
            trained = self._steps(trainer, way.rows)
            return trained, self._means(trainer, trained.state) if way.rows == BATCH else []

    def _compiled(self, way: Way) -> Any:
        return hyperplace.compile(
            self.habit.model(),
            self._plan(way.grain, way.k, way.partitioner, way.sample_rows),
            optimizer=_optimizer,
            loss=self.habit.loss or row_loss,
            schedule=way.schedule,
            in_flight=1,
            micro_batches=way.micro_batches,
            threads=1,
            sample=self.habit.sample(way.sample_rows),
        )

    def _steps(self, trainer: Any, rows: int) -> Trained:
        losses = [trainer.step(*_given(self.habit.sample(rows, n)), _target(rows, n)).item() for n in range(NUM_STEPS)]
        state = trainer.state_dict()
        predictions = flat(trainer.predict(*_given(self.habit.sample(rows, NUM_STEPS))))
        return Trained(losses, state, [] if self.habit.is_random else predictions)

    def _means(self, trainer: Any, state: dict[str, Tensor]) -> list[str]:
        """Return where predictions over many rows have other means than plain torch, in both modes."""
        faults, sample = [], self.habit.sample(600, 7)
        for training in (True, False):
            net = self.habit.model()
            net.load_state_dict(state)
            with torch.no_grad():
                wanted = flat(_called(net.train(training), sample))
            found = flat(trainer.predict(*_given(self.habit.sample(600, 7)), training=training))
            faults += [
                f"output {n} has another mean with training={training}"
                for n, (a, b) in enumerate(zip(found, wanted, strict=True))
                if not same_mean(a, b)
            ]
        return faults

    def _planned(self, grain: str, k: int, partitioner: str, sample_rows: int) -> Any:
        options = {"grain": grain, "k": k, "partitioner": partitioner, "blocks": BLOCKS[grain], "row_blocks": k}
        if partitioner == "dataparallel":
            options["blocks"] = 1
        sample = self.habit.sample(sample_rows)
        return hyperplace.place(self.habit.model(), sample, imbalance=100.0, batch=BATCH, **options)

    def _trained_plainly(self, rows: int, micro_batches: int) -> Trained:
        net = self.habit.model()
        optimizer, losses = _optimizer(net.parameters()), []
        for number in range(NUM_STEPS):
            optimizer.zero_grad()
            losses.append(self._plain_loss(net, rows, number, micro_batches))
            optimizer.step()
        state = copy.deepcopy(net.state_dict())
        with torch.no_grad():
            predictions = flat(_called(net.eval(), self.habit.sample(rows, NUM_STEPS)))
        return Trained(losses, state, predictions)

    def _plain_loss(self, net: nn.Module, rows: int, number: int, micro_batches: int) -> float:
        """Return the loss of a step after its backward pass, micro-batches weighed by their rows."""
        total, target = 0.0, _target(rows, number)
        for piece in torch.arange(rows).chunk(micro_batches):
            inputs = _picked(self.habit.sample(rows, number), piece)
            loss = (self.habit.loss or row_loss)(_called(net, inputs), target[piece]) * (len(piece) / rows)
            loss.backward()
            total += loss.item()
        return total

    def _is_free_of(self, way: Way) -> bool:
        """Whether plain torch gives the same with the mini-batch cut as the way wants it."""
        if way.rows < 2 or self.habit.is_random:
            return self.habit.is_random
        try:
            cut = self._plain(way.rows, way.micro_batches)
        except Exception:  # plain torch cannot run pieces of these rows
            return False
        return not faults_between(cut, self._plain(way.rows, 1), 1e-9)


def row_loss(outputs: Any, target: Tensor) -> Tensor:
    """Return the mean over rows of something to which every element of every output adds in a way of its own."""
    total, rows = torch.zeros((), dtype=torch.float64), len(target)
    for number, output in enumerate(flat(outputs)):
        value = torch.view_as_real(output) if output.is_complex() else output
        if not value.is_floating_point():
            continue
        value = value.double()
        has_rows = value.ndim > 0 and value.shape[0] == rows
        features = value.reshape(rows if has_rows else 1, -1)
        waves = torch.cos(torch.arange(features.shape[1], dtype=torch.float64) + number)
        total = total + (features @ waves * (target if has_rows else target.mean())).mean()
        total = total + features.square().mean()
    return total


def _optimizer(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=0.02, momentum=0.9)


def _target(rows: int, number: int) -> Tensor:
    generator = torch.Generator().manual_seed(50 + number)
    return torch.randn(rows, generator=generator, dtype=torch.float64)


def _called(net: nn.Module, sample: Any) -> Any:
    return net(**sample) if isinstance(sample, dict) else net(*sample)


def _given(sample: Any) -> tuple[Any, ...]:
    """Return the inputs as a trainer takes them: named ones are one dict."""
    return (sample,) if isinstance(sample, dict) else sample


def _picked(sample: Any, rows: Tensor) -> Any:
    if isinstance(sample, Tensor):
        return sample[rows]
    if isinstance(sample, dict):
        return {name: _picked(one, rows) for name, one in sample.items()}
    return type(sample)(_picked(one, rows) for one in sample)


def _num_rows(sample: Any) -> int:
    while not isinstance(sample, Tensor):
        sample = next(iter(sample.values() if isinstance(sample, dict) else sample))
    return len(sample)


def _once(function: Callable[..., Any], key_of: Callable[..., Any] = lambda *args: args) -> Callable[..., Any]:
    """Return the function with its answers remembered, exceptions too."""
    answers: dict[Any, tuple[Any, Exception | None]] = {}

    def once(*arguments: Any, **options: Any) -> Any:
        key = (key_of(*arguments), *options.items())
        if key not in answers:
            try:
                answers[key] = (function(*arguments, **options), None)
            except Exception as fault:
                answers[key] = (None, fault)
        answer, fault = answers[key]
        if fault is not None:
            raise fault
        return answer

    return once


@contextmanager
def _limit(seconds: float) -> Iterator[None]:
    """Raise TimeoutError in the main thread after so many seconds; a limit set around is set again afterwards."""

    def ring(*_: object) -> None:
        raise TimeoutError(f"still running after {seconds:.0f} s")

    before = signal.signal(signal.SIGALRM, ring)
    left, _ = signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, left)
        signal.signal(signal.SIGALRM, before)
