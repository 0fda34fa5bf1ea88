"""The threads of all parts, which know nothing of the trainer: where nobody has it any more, they end."""

import threading
import time
import warnings
from collections.abc import Sequence

from hyperplace.runtime.board import Board
from hyperplace.runtime.gate import Gate
from hyperplace.runtime.orders import Order
from hyperplace.runtime.post import Post
from hyperplace.runtime.worker import Worker

FREE_S = 4.0  # how long an update may still take when everything stops


class Crew:
    """All workers, each in a thread of its own, until they are stopped."""

    def __init__(self, workers: Sequence[Worker], post: Post, board: Board, gate: Gate) -> None:
        self._workers, self._post, self._board, self._gate = workers, post, board, gate
        self._threads = [
            threading.Thread(target=worker.run, name=f"hyperplace part {worker.number}", daemon=True)
            for worker in workers
        ]
        for thread in self._threads:
            thread.start()

    def give(self, order: Order) -> None:
        """Hand out an order to all."""
        for worker in self._workers:
            worker.orders.put(order)

    def stop(self) -> None:
        """Tell all to end, wherever they are; may be called again, and from any thread."""
        self._board.stop()
        for worker in self._workers:
            worker.orders.put(None)

    def stops_writing(self) -> bool:
        """Stop, and return whether the weights are what they will stay: only an update that has begun is waited for."""
        self.stop()
        return self._gate.wait_until_free(FREE_S)

    def end(self, limit_s: float) -> None:
        """Stop, and wait for the threads; one that is in a long operation is left behind, and ends after it."""
        self.stop()
        deadline = time.monotonic() + limit_s
        for worker, thread in zip(self._workers, self._threads, strict=True):
            thread.join(max(0.0, deadline - time.monotonic()))
            if not thread.is_alive():
                worker.weights.discard()
            elif limit_s > 0:
                warnings.warn(f"{thread.name} is still in a long operation, and ends after it", stacklevel=3)
        self._post.clear()
