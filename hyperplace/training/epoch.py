"""One epoch: every mini-batch given to whoever learns, losses read as they come, then the test images.

Losses are taken only when they are ready: asking for one that is under way would let the pipe run dry.
"""

import math
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from hyperplace.data import batches
from hyperplace.errors import TrainingError
from hyperplace.training.learner import Judge, Learner, Pending
from hyperplace.training.sets import Sets
from hyperplace.training.settings import TrainSettings
from hyperplace.values.history import HistoryRow


@dataclass(frozen=True)
class Snapshot:
    """An epoch under way or done; loss and accuracy are of the mini-batches known so far."""

    method: str
    seed: int
    epoch: int  # from 1
    num_epochs: int
    step: int  # mini-batches given
    num_steps: int
    loss: float
    accuracy: float  # of training, 0 .. 1
    images_per_s: float
    staleness: tuple[float, ...]  # mean updates between forward pass and update, per part
    test_accuracy: float | None = None  # once the epoch is done

    def __str__(self) -> str:
        parts = [
            f"loss {self.loss:.4f}",
            f"train {100 * self.accuracy:.1f}%",
            *([f"test {100 * self.test_accuracy:.2f}%"] if self.test_accuracy is not None else []),
            f"{self.images_per_s:,.0f} images/s",
            *([f"staleness {self.shown_staleness}"] if self.staleness else []),
        ]
        return "  ".join(parts)

    @property
    def shown_staleness(self) -> str:
        """Every part's while they are few, the most of any otherwise."""
        if len(self.staleness) > 4:
            return f"up to {max(self.staleness):.1f}"
        return " ".join(f"{mean:.1f}" for mean in self.staleness)


OnSnapshot = Callable[[Snapshot], None]


@dataclass
class Progress:
    """How far a run has come: epochs done, and what is known of the one under way. A checkpoint keeps it."""

    method: str
    rows: list[HistoryRow] = field(default_factory=list)
    seconds: float = 0.0  # of training, without tests
    num_steps: int = 0  # mini-batches given in this epoch
    num_known: int = 0  # rows whose loss is known
    loss_sum: float = 0.0

    @property
    def epoch(self) -> int:
        """The epoch under way, from 0."""
        return len(self.rows)

    @property
    def loss(self) -> float:
        return self.loss_sum / self.num_known if self.num_known else 0.0

    def add_loss(self, loss: float, num_rows: int) -> None:
        self.loss_sum += loss * num_rows
        self.num_known += num_rows

    def take_brought(self, brought: Mapping[str, Any], steps_per_epoch: int) -> None:
        """Begin where the others are who have taken this process in; nothing where it was there from the start."""
        if brought:
            self.take(brought["progress"], steps_per_epoch)

    def take(self, saved: dict[str, Any], steps_per_epoch: int) -> None:
        """Go on from what a checkpoint kept; its rows become this run's. Raise ValueError where it cannot be so."""
        rows = [replace(HistoryRow(**row), method=self.method) for row in saved["rows"]]
        counts, sums = (saved["num_steps"], saved["num_known"]), (saved["seconds"], saved["loss_sum"])
        if any(type(count) is not int or count < 0 for count in counts) or counts[0] > steps_per_epoch:
            raise ValueError(f"{counts} are not counts of an epoch of {steps_per_epoch} steps")
        if any(type(number) not in (int, float) or not math.isfinite(number) for number in sums):
            raise ValueError(f"{sums} are not numbers")
        self.rows, (self.num_steps, self.num_known), (self.seconds, self.loss_sum) = rows, counts, sums

    def finish(self, settings: TrainSettings, accuracy: float) -> None:
        """End the epoch with its row."""
        if not math.isfinite(self.loss):
            raise TrainingError(
                f"the loss of epoch {self.epoch + 1} is {self.loss}; lower --lr, or find the layer with --check-nan "
                "(a checkpoint of the epoch before is kept)"
            )
        row = HistoryRow(settings.seed, self.method, self.epoch + 1, self.seconds, self.loss, accuracy)
        self.rows.append(row)
        self.num_steps, self.num_known, self.loss_sum = 0, 0, 0.0


@dataclass
class Epoch:
    """The rest of an epoch of one run."""

    learner: Learner
    judge: Judge
    progress: Progress
    settings: TrainSettings
    sets: Sets
    on_step: OnSnapshot
    is_stopped: Callable[[], bool] = lambda: False
    on_loss: Callable[[float, int], None] = lambda loss, num_rows: None
    on_trained: OnSnapshot = lambda shown: None  # before the test
    _begin: float = field(default=0.0, init=False)
    _rows_given: int = field(default=0, init=False)

    def run(self) -> Snapshot | None:
        """Train on what is left of the epoch and test; None if stopped, with the progress made."""
        self._begin, self._rows_given = time.perf_counter(), 0
        self.judge.forget()
        try:
            self._train()
        finally:
            taken = time.perf_counter() - self._begin
            self.progress.seconds += taken
        right, rows = self.learner.total(self.judge.num_right, self.judge.num_rows)
        shown = replace(self._snapshot(taken), accuracy=right / rows if rows else 0.0)
        self.on_trained(shown)
        accuracy = None if self.is_stopped() else self.test()
        if accuracy is None:
            return None
        self.progress.finish(self.settings, accuracy)
        return replace(shown, test_accuracy=accuracy)

    def _train(self) -> None:
        settings, progress = self.settings, self.progress
        every = batches(
            self.sets.train,
            settings.batch,
            seed=settings.seed,
            epoch=progress.epoch,
            shape=self.sets.shape,
            fed=self.learner.rows_fed,
        )
        pending: deque[tuple[Pending, int]] = deque()
        for x, y in islice(every, progress.num_steps, None):
            if self.is_stopped():
                break
            pending.append((self.learner.step(x, y), len(y)))
            progress.num_steps += 1
            self._rows_given += len(y)
            while pending and pending[0][0].is_ready:
                self._know(*pending.popleft())
            self.on_step(self._snapshot(time.perf_counter() - self._begin))
        self.learner.flush()
        for loss, num_rows in pending:
            self._know(loss, num_rows)

    def _know(self, loss: Pending, num_rows: int) -> None:
        value = loss.item()
        self.progress.add_loss(value, num_rows)
        self.on_loss(value, num_rows)

    def _snapshot(self, seconds: float) -> Snapshot:
        return Snapshot(
            method=self.progress.method,
            seed=self.settings.seed,
            epoch=self.progress.epoch + 1,
            num_epochs=self.settings.epochs,
            step=self.progress.num_steps,
            num_steps=math.ceil(len(self.sets.train) / self.settings.batch),
            loss=self.progress.loss,
            accuracy=self.judge.accuracy,
            images_per_s=self._rows_given / seconds if seconds else 0.0,
            staleness=tuple(part.mean for part in self.learner.staleness),
        )

    def test(self) -> float | None:
        """Return the share of test images that are recognised, or None if stopped before the last."""
        right = 0
        fed = self.learner.rows_fed
        for x, y in batches(self.sets.test, self.settings.batch, seed=0, epoch=0, shape=self.sets.shape, fed=fed):
            if self.is_stopped():
                return None
            outputs = self.learner.predict(x)
            logits = outputs[0] if isinstance(outputs, tuple) else outputs
            right += int((logits.argmax(1).cpu() == y).sum())
        return right / len(self.sets.test)
