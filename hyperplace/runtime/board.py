"""What the workers tell the caller: finished mini-batches, losses, outputs, and the first fault."""

import linecache
import threading
import traceback
from dataclasses import dataclass

from torch import Tensor

from hyperplace.errors import TrainingError
from hyperplace.runtime.part import Part

POLL_S = 0.2  # how often a waiting caller looks up, so that Ctrl-C gets through


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
    import sys

    path = getattr(sys.modules.get(type(part).__module__), "__file__", None)
    for frame in reversed(traceback.extract_tb(cause.__traceback__)):
        if path is None or frame.filename != path:
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
    """A place all threads write to; the caller waits here."""

    def __init__(self, num_parts: int) -> None:
        self._num_parts = num_parts
        self._changed = threading.Condition()
        self._finished: dict[int, int] = {}  # how many parts are done with a batch
        self._outputs: dict[int, list[Tensor]] = {}
        self.fault: Fault | None = None
        self.is_stopped = False

    def finish(self, part: int, batch: int) -> None:
        with self._changed:
            self._finished[batch] = self._finished.get(batch, 0) + 1
            self._changed.notify_all()

    def put_outputs(self, batch: int, outputs: list[Tensor]) -> None:
        with self._changed:
            self._outputs[batch] = outputs
            self._changed.notify_all()

    def fail(self, fault: Fault) -> None:
        """Remember the first fault and stop everything."""
        with self._changed:
            self.fault = self.fault or fault
            self.is_stopped = True
            self._changed.notify_all()
        self.on_stop()

    def on_stop(self) -> None:
        """What else must know that everything stops; set by the trainer."""

    def is_finished(self, batch: int) -> bool:
        return self._finished.get(batch, 0) >= self._num_parts

    def take_outputs(self, batch: int) -> list[Tensor]:
        return self._outputs.pop(batch)

    def forget(self, batch: int) -> None:
        with self._changed:
            self._finished.pop(batch, None)

    def wait_for(self, batch: int) -> None:
        """Wait until all parts are done with a batch; raise if one has failed."""
        with self._changed:
            while not self.is_finished(batch):
                self.raise_fault()
                self._changed.wait(POLL_S)

    def raise_fault(self) -> None:
        if self.fault:
            raise self.fault.error()
