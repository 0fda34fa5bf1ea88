"""What an epoch needs of whatever learns: a Trainer of a plan, or the unsplit model in a plain loop."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional

from hyperplace.runtime.criterion import JUDGED
from hyperplace.values.ranges import Range


class Pending(Protocol):
    """The loss of a mini-batch that may still be under way."""

    @property
    def is_ready(self) -> bool: ...

    def item(self) -> float: ...


class Learner(Protocol):
    """Trains on mini-batches, maybe several at a time."""

    def step(self, *batch: Any) -> Pending: ...

    def flush(self) -> None: ...

    def predict(self, *inputs: Tensor) -> Any: ...

    def total(self, *counts: int) -> Sequence[int]: ...

    def rows_fed(self, num_rows: int) -> Sequence[Range]: ...

    @property
    def staleness(self) -> Sequence[Any]: ...


class Known:
    """A loss that is there at once."""

    is_ready = True

    def __init__(self, loss: Tensor) -> None:
        self._loss = loss

    def item(self) -> float:
        return float(self._loss)


class PlainLearner:
    """The unsplit model, a mini-batch at a time: what every split one is compared with."""

    staleness: Sequence[Any] = ()

    def __init__(self, model: nn.Module, optimizer: torch.optim.Optimizer, loss: Callable[..., Tensor]) -> None:
        self.model, self._optimizer, self._loss = model.train(), optimizer, loss

    def step(self, *batch: Any) -> Known:
        *inputs, target = batch
        self._optimizer.zero_grad(set_to_none=True)
        loss = self._loss(self.model(*inputs), target)
        loss.backward()  # type: ignore[no-untyped-call]
        self._optimizer.step()
        return Known(loss.detach())

    def flush(self) -> None:
        """Nothing is ever under way."""

    def total(self, *counts: int) -> Sequence[int]:
        return counts

    def rows_fed(self, num_rows: int) -> Sequence[Range]:
        return ((0, num_rows),)

    def predict(self, *inputs: Tensor) -> Any:
        self.model.eval()
        try:
            with torch.no_grad():
                return self.model(*inputs)
        finally:
            self.model.train()


class Judge:
    """Cross entropy that also counts right answers; the outputs are seen nowhere else."""

    def __init__(self) -> None:
        self._counts: dict[int, tuple[int, int]] = {}  # right answers and rows, by mini-batch

    @property
    def num_right(self) -> int:
        return sum(right for right, _ in list(self._counts.values()))

    @property
    def num_rows(self) -> int:
        return sum(rows for _, rows in list(self._counts.values()))

    def forget(self, first: int = 0) -> None:
        """Forget what was counted in mini-batches from this one on: they begin anew, or are computed again."""
        for batch in [batch for batch in self._counts if batch >= first]:
            del self._counts[batch]

    def __call__(self, outputs: Any, target: Tensor) -> Tensor:
        logits = outputs[0] if isinstance(outputs, tuple) else outputs
        if torch.is_grad_enabled():  # not where the loss is only checked
            right = int((logits.detach().argmax(1) == target.to(logits.device)).sum())
            before = self._counts.get(JUDGED.batch, (0, 0))
            self._counts[JUDGED.batch] = (before[0] + right, before[1] + len(target))
        return functional.cross_entropy(logits, target.to(logits.device))

    @property
    def accuracy(self) -> float:
        return self.num_right / self.num_rows if self.num_rows else 0.0


@contextmanager
def intra_op_threads(number: int) -> Iterator[None]:
    """Let torch use so many threads for what this thread runs in the block."""
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)
