"""What ranks tell the caller, as values: finished commands, losses, outputs, and the first fault."""

import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch import Tensor

from hyperplace.errors import TrainingError
from hyperplace.runtime.journal import Doing
from hyperplace.runtime.losses import Loss
from hyperplace.runtime.transport.threads import Bell
from hyperplace.values.program import PartProgram

POLL_S = 0.2  # how often a waiting caller looks up without being called


@dataclass(frozen=True)
class Finished:
    """A part is done with a command that somebody waits for."""

    part: int


@dataclass(frozen=True)
class Lost:
    """The loss of a mini-batch, or of a micro-batch, weighed by its rows."""

    batch: int
    loss: Tensor


@dataclass(frozen=True)
class Predicted:
    """The model's outputs for a prediction."""

    outputs: tuple[Tensor, ...]


@dataclass(frozen=True)
class Fault:
    """An exception in a rank, and what it was doing."""

    part: int
    doing: str  # forward, backward, loss, update
    where: str
    batch: int
    cause: BaseException

    @classmethod
    def of(cls, number: int, table: PartProgram, doing: Doing, step: tuple[str, str], cause: BaseException) -> "Fault":
        """Name the layer that failed: the one at hand going forward, and otherwise those of the segment."""
        layers = table.segments[doing.segment].layers if table.segments else ()
        where = step[0] if doing.what == "forward" else ""
        if doing.what in ("forward", "backward") and not where and layers:
            where = layers[0] if len(layers) == 1 else f"{layers[0]} .. {layers[-1]}"
        return cls(number, doing.what, where, doing.batch, cause)

    def error(self) -> TrainingError:
        if isinstance(self.cause, TrainingError):  # another process says why the run has ended
            return self.cause
        at = f" of {self.where}" if self.where else ""
        reason = " ".join(str(self.cause).split()) or "no reason given"
        error = TrainingError(
            f"part {self.part} failed in the {self.doing}{at}, mini-batch {self.batch}: "
            f"{type(self.cause).__name__}: {reason}"
        )
        error.__cause__ = self.cause
        return error


Event = Finished | Lost | Predicted | Fault


class Progress:
    """What ranks write and the caller reads, by single operations of the interpreter: nobody needs a lock."""

    def __init__(self, parts: Sequence[int], on_fault: Callable[["Fault"], None]) -> None:
        self._num_finished = dict.fromkeys(parts, 0)  # commands with something to wait for, which parts take in turn
        self._outputs: list[tuple[Tensor, ...]] = []
        self._faults: list[Fault] = []
        self._changed, self._on_fault = Bell(), on_fault
        # Nobody keeps a loss, and with it the trainer, from being forgotten. A WeakValueDictionary runs Python code
        # when one is, and an interrupt within that is lost.
        self._losses: dict[int, weakref.ref[Loss]] = {}

    def tell(self, event: Event) -> None:
        """Take note of what a rank says; the first fault stops everything."""
        match event:
            case Finished(part):
                self._num_finished[part] += 1
            case Lost(batch, piece):
                if (loss := self._losses.pop(batch)()) is not None:
                    loss.add(piece)
                return
            case Predicted(outputs):
                self._outputs.append(outputs)
                return
            case Fault():
                self._faults.append(event)
                self._on_fault(event)
        self._changed.ring()

    def expect(self, batch: int, loss: Loss) -> None:
        """Add what comes of a mini-batch to this loss."""
        self._losses[batch] = weakref.ref(loss)

    @property
    def fault(self) -> Fault | None:
        """The first fault."""
        return self._faults[0] if self._faults else None

    @property
    def num_finished(self) -> int:
        """How many commands all parts are done with."""
        return min(self._num_finished.values())

    def take_outputs(self) -> list[Tensor]:
        """Return the outputs of the last prediction; none where another process has them."""
        return list(self._outputs.pop()) if self._outputs else []

    def wake(self) -> None:
        """Let a waiting caller look again."""
        self._changed.ring()

    def wait(self) -> None:
        """Wait until something may have changed."""
        self._changed.wait(POLL_S)

    def raise_fault(self) -> None:
        if self.fault:
            raise self.fault.error()
