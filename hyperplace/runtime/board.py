"""What the workers tell the caller: finished mini-batches, losses, outputs, and the first fault."""

import linecache
import traceback
from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from hyperplace.errors import TrainingError
from hyperplace.runtime.bell import Bell
from hyperplace.runtime.part import Part

POLL_S = 0.2  # how often a waiting caller looks up without being called


@dataclass(frozen=True)
class Fault:
    """An exception in a worker, and what it was doing."""

    part: int
    doing: str  # forward, backward, loss, update
    where: str
    batch: int
    cause: BaseException

    @classmethod
    def of(cls, number: int, part: Part, doing: str, segment: int, batch: int, cause: BaseException) -> "Fault":
        """Find out which layer the exception came from."""
        layers = part.segments[segment].layers if part.segments else ()
        where = _layer_of(cause, part) if doing == "forward" else ""
        if doing in ("forward", "backward") and not where and layers:
            where = layers[0] if len(layers) == 1 else f"{layers[0]} .. {layers[-1]}"
        return cls(number, doing, where, batch, cause)

    def error(self) -> TrainingError:
        at = f" of {self.where}" if self.where else ""
        reason = " ".join(str(self.cause).split()) or "no reason given"
        error = TrainingError(
            f"part {self.part} failed in the {self.doing}{at}, mini-batch {self.batch}: "
            f"{type(self.cause).__name__}: {reason}"
        )
        error.__cause__ = self.cause
        return error


def _layer_of(cause: BaseException, part: Part) -> str:
    """Return the layer whose code raised, from the comment above the line in the generated program."""
    paths = {getattr(type(part), segment.name).__code__.co_filename for segment in part.segments}
    for frame in reversed(traceback.extract_tb(cause.__traceback__)):
        if frame.filename not in paths:
            continue
        known = {layer for segment in part.segments for layer in segment.layers}
        for number in range(frame.lineno or 0, 0, -1):
            line = linecache.getline(frame.filename, number).strip()
            if line.startswith("def "):
                break
            if line.startswith("# "):
                return next((layer for layer in sorted(known, key=len, reverse=True) if line[2:].startswith(layer)), "")
    return ""


class Board:
    """What the workers write and the caller reads, by single operations of the interpreter: nobody needs a lock."""

    def __init__(self, num_parts: int, on_stop: Callable[[], None]) -> None:
        self._num_finished = [0] * num_parts  # orders with something to wait for, which all parts take in turn
        self._outputs: list[list[Tensor]] = []
        self._faults: list[Fault] = []
        self._changed, self._on_stop = Bell(), on_stop
        self.is_stopped = False

    @property
    def fault(self) -> Fault | None:
        """The first fault."""
        return self._faults[0] if self._faults else None

    @property
    def num_finished(self) -> int:
        """How many orders all parts are done with."""
        return min(self._num_finished)

    def finish(self, part: int) -> None:
        self._num_finished[part] += 1
        self._changed.ring()

    def put_outputs(self, outputs: list[Tensor]) -> None:
        self._outputs.append(outputs)

    def take_outputs(self) -> list[Tensor]:
        """Return the outputs of the last prediction."""
        return self._outputs.pop()

    def fail(self, fault: Fault) -> None:
        """Remember the first fault and stop everything."""
        self._faults.append(fault)
        self.stop()

    def stop(self) -> None:
        """Let everybody who waits give up; may be called again, where an interrupt came in between."""
        self.is_stopped = True
        self._on_stop()
        self._changed.ring()

    def wait(self) -> None:
        """Wait until something may have changed."""
        self._changed.wait(POLL_S)

    def raise_fault(self) -> None:
        if self.fault:
            raise self.fault.error()
