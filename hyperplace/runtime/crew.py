"""The threads of all parts, which know nothing of the trainer: where nobody has it any more, they end."""

import threading
import time
import warnings
from collections.abc import Sequence

from hyperplace.runtime.commands import Command
from hyperplace.runtime.progress import Progress
from hyperplace.runtime.rank import Rank
from hyperplace.runtime.transport.threads import Threads

FREE_S = 4.0  # how long an update may still take when everything stops


class Crew:
    """All ranks, each in a thread of its own, until they are stopped."""

    def __init__(self, ranks: Sequence[Rank], transport: Threads, progress: Progress) -> None:
        self._ranks, self._transport, self._progress = ranks, transport, progress
        self._threads = [
            threading.Thread(target=rank.run, name=f"hyperplace part {rank.number}", daemon=True) for rank in ranks
        ]
        for thread in self._threads:
            thread.start()

    def give(self, command: Command) -> None:
        """Hand out a command to all."""
        for rank in self._ranks:
            rank.commands.put(command)

    def stop(self) -> None:
        """Tell all to end, wherever they are; may be called again, and from any thread."""
        self._transport.abort()
        self._progress.wake()
        for rank in self._ranks:
            rank.commands.put(None)

    def stops_writing(self) -> bool:
        """Stop, and return whether the weights are what they will stay: only an update that has begun is waited for."""
        self.stop()
        return self._transport.wait_until_written(FREE_S)

    def end(self, limit_s: float) -> None:
        """Stop, and wait for the threads; one that is in a long operation is left behind, and ends after it."""
        self.stop()
        deadline = time.monotonic() + limit_s
        for rank, thread in zip(self._ranks, self._threads, strict=True):
            thread.join(max(0.0, deadline - time.monotonic()))
            if not thread.is_alive():
                rank.weights.discard()
            elif limit_s > 0:
                warnings.warn(f"{thread.name} is still in a long operation, and ends after it", stacklevel=3)
        self._transport.clear()
