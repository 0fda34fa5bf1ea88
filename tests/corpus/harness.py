"""Train a habit split and plain, side by side: equal, refused, or a fault.

Three steps of SGD with momentum from the same weights; losses, the whole state dict and predictions in evaluation mode
are compared. An outcome is one of

    equal      as plain torch, within the habit's tolerance
    refused    a HyperplaceError before anything was trained, with its message
    plain      plain torch fails as well, and so do we, by a HyperplaceError
    lax        plain torch fails, and we train: an assert on the rows, a model without parameters
    not asked  micro-batches of a model whose rows depend on each other: by their nature another model
    WRONG      something differs, and how far
    EXCEPTION  anything else that was raised, or a worker's fault in the midst of training
"""

import copy
import itertools
import signal
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest import mock

import torch
from habit import BATCH, Habit, flat
from torch import Tensor, nn

import hyperplace
from hyperplace import planning
from hyperplace.errors import HyperplaceError, TrainingError

NUM_STEPS = 3
LIMIT_S = 20.0
FAULTS = ("WRONG", "EXCEPTION")


@dataclass(frozen=True)
class Way:
    """One way to run a habit; `micro_batches` None is the default of compile.

    The plan is for BATCH rows, whatever the sample's own.
    """

    grain: str
    k: int
    partitioner: str
    sample_rows: int
    schedule: str
    micro_batches: int | None
    rows: int

    def __str__(self) -> str:
        pieces = "" if self.micro_batches is None else f"/{self.micro_batches}"
        return f"{self.plan} {self.schedule}{pieces} rows={self.rows}"

    @property
    def plan(self) -> str:
        """The plan in words."""
        sample = "" if self.sample_rows == BATCH else f" sample={self.sample_rows}"
        return f"{self.grain} k={self.k} {self.partitioner}{sample}"


PLANS = (
    ("coarse", 2, "horizontal", BATCH),
    ("coarse", 3, "random", BATCH),
    ("coarse", 2, "random", 1),
    ("fine", 2, "random", BATCH),
    ("fine", 3, "incremental", BATCH),
    ("hybrid", 2, "dataparallel", BATCH),
    ("hybrid", 2, "random", BATCH),
    ("hybrid", 3, "random", 2),
)
BLOCKS = {"coarse": 3, "fine": 2, "hybrid": 2}
ROWS = (BATCH, 4, 9, 1)
RUNS = (
    *(("async", None, rows) for rows in ROWS),
    *(("sync", None, rows) for rows in ROWS),
    *(("sync", 2, rows) for rows in (BATCH, 9)),
)
WAYS = tuple(Way(*plan, *run) for plan, run in itertools.product(PLANS, RUNS))


@dataclass(frozen=True)
class Outcome:
    """What became of one run; `detail` is the message, or how far it is off."""

    kind: str
    detail: str = ""

    @property
    def is_fault(self) -> bool:
        return self.kind in FAULTS

    def __str__(self) -> str:
        return f"{self.kind}: {self.detail}" if self.detail else self.kind


@dataclass(frozen=True)
class Trained:
    """What a run leaves."""

    losses: list[float]
    state: dict[str, Tensor]
    predictions: list[Tensor]


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
            return _where(fault) if isinstance(wanted, Trained) else Outcome("plain", _first_line(fault))
        except HyperplaceError as fault:
            return Outcome("refused" if isinstance(wanted, Trained) else "plain", _first_line(fault))
        except Exception as fault:  # the point of the harness: whatever else is raised is a fault to be told
            return _where(fault)

    def _compared(self, way: Way, wanted: Trained | Exception) -> Outcome:
        if isinstance(wanted, Exception):
            self._trained(way)
            return Outcome("lax", f"trains where plain torch raises {type(wanted).__name__}: {_first_line(wanted)}")
        if self.habit.is_random:
            return self._repeated(way)
        found = self._trained(way)
        return _verdict(_faults(found, wanted, self.habit.tolerance))

    def _repeated(self, way: Way) -> Outcome:
        """Compare what holds for random numbers: a run repeats to the bit, and means over many rows agree."""
        (one, means), (other, _) = (self._trained_with_means(way) for _ in range(2))
        return _verdict([*_faults(one, other, 0.0), *means])

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
                if not _same_mean(a, b)
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
        return not _faults(cut, self._plain(way.rows, 1), 1e-9)


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


def _faults(found: Trained, wanted: Trained, tolerance: float) -> list[str]:
    """Return in what two runs differ by more than the tolerance."""
    pairs = {
        f"loss {n}": map(torch.tensor, pair) for n, pair in enumerate(zip(found.losses, wanted.losses, strict=True))
    }
    faults = []
    if found.state.keys() != wanted.state.keys():
        faults.append(f"state dict has other names: {sorted(found.state.keys() ^ wanted.state.keys())}")
    else:
        pairs |= {name: (found.state[name], wanted.state[name]) for name in wanted.state}
    if len(found.predictions) != len(wanted.predictions):
        faults.append(f"{len(found.predictions)} outputs instead of {len(wanted.predictions)}")
    else:
        both = zip(found.predictions, wanted.predictions, strict=True)
        pairs |= {f"prediction {n}": pair for n, pair in enumerate(both)}
    return faults + [fault for name, pair in pairs.items() if (fault := _difference(name, *pair, tolerance))]


def _difference(name: str, found: Tensor, wanted: Tensor, tolerance: float) -> str:
    if found.shape != wanted.shape:
        return f"{name} has shape {tuple(found.shape)} instead of {tuple(wanted.shape)}"
    if found.dtype != wanted.dtype:
        return f"{name} is {found.dtype} instead of {wanted.dtype}"
    if torch.equal(found, wanted) or not found.numel():
        return ""
    wide = torch.complex128 if found.is_complex() else torch.float64
    far = float((found.to(wide) - wanted.to(wide)).abs().max() / max(1.0, float(wanted.to(wide).abs().max())))
    return "" if far <= tolerance else f"{name} is off by {far:.1e}"


def _same_mean(found: Tensor, wanted: Tensor) -> bool:
    """Whether two samples of random numbers may have one mean: six standard errors apart at most."""
    if found.shape != wanted.shape:
        return False
    one, two, rows = found.double().flatten(1), wanted.double().flatten(1), len(found)
    bound = 6 * ((one.var(0) + two.var(0)) / rows).sqrt() + 1e-9
    return bool(((one.mean(0) - two.mean(0)).abs() <= bound).all())


def _verdict(faults: list[str]) -> Outcome:
    return (
        Outcome("WRONG", "; ".join(faults[:3]) + ("; ..." if len(faults) > 3 else "")) if faults else Outcome("equal")
    )


def _where(fault: BaseException) -> Outcome:
    """Return an exception with the last line of hyperplace it went through."""
    root = fault
    while isinstance(root, HyperplaceError) and root.__cause__ is not None:
        root = root.__cause__
    frames = [frame for frame in traceback.extract_tb(fault.__traceback__) if "/hyperplace/" in frame.filename]
    place = f" at {frames[-1].filename.rpartition('/hyperplace/')[2]}:{frames[-1].lineno}" if frames else ""
    return Outcome("EXCEPTION", f"{type(fault).__name__}: {_first_line(fault)}{place}")


def _first_line(fault: BaseException) -> str:
    return next((line.strip() for line in str(fault).splitlines() if line.strip()), "")


def _num_rows(sample: Any) -> int:
    while not isinstance(sample, Tensor):
        sample = next(iter(sample.values() if isinstance(sample, dict) else sample))
    return len(sample)


def _once(function: Callable[..., Any], key_of: Callable[..., Any] = lambda *args: args) -> Callable[..., Any]:
    """Return the function with its answers remembered, exceptions too."""
    answers: dict[Any, tuple[Any, Exception | None]] = {}

    def once(*arguments: Any) -> Any:
        key = key_of(*arguments)
        if key not in answers:
            try:
                answers[key] = (function(*arguments), None)
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
