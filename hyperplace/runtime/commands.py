"""What the trainer tells all ranks to do, and with which mini-batch: values, which may go to another process."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from hyperplace.runtime.checkpoints.saved import Saved
from hyperplace.runtime.precision import Autocast


@dataclass(frozen=True)
class Batch:
    """A mini-batch, or a micro-batch of one: its number, inputs, what the loss wants, and its share of the loss.

    `autocasts` are those it was given in: forward and loss run in them, as they would have in the caller's thread.
    """

    number: int
    inputs: tuple[Tensor, ...]
    target: Any = None
    share: float = 1.0
    autocasts: tuple[Autocast, ...] = ()
    lot: int | None = None  # by which random numbers are drawn, where not by the number
    last: int | None = None  # the micro-batch that ends its mini-batch, where an update of its own follows

    @property
    def num_rows(self) -> int:
        return self.inputs[0].shape[0]


@dataclass(frozen=True)
class Tick:
    """Do this tick's actions; a batch may enter."""

    number: int
    batch: Batch | None = None


@dataclass(frozen=True)
class Update:
    """Use the gradients of all micro-batches since the last update; `batch` is the last of them."""

    batch: int


@dataclass(frozen=True)
class Predict:
    """Run a batch forward only, in evaluation mode or not."""

    batch: Batch
    training: bool = False


@dataclass(frozen=True)
class Load:
    """Take other weights, those after `num_batches` mini-batches, and what a checkpoint has saved beside them."""

    state: Mapping[str, Tensor]
    num_batches: int
    saved: Saved | None = None


Command = Tick | Update | Predict | Load
