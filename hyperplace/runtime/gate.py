"""Who may write weights, and until when.

Once the gate is closed, no part begins to write; once it is free, none writes any more: then the weights can be read,
even while a part is still in a long forward or backward pass, which writes none.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from hyperplace.runtime.bell import Bell
from hyperplace.runtime.transport import Stopped


class Gate:
    """Lets parts write their weights: all together, or each by itself.

    Together, a part that comes waits for all others: then all of them write or none does, whenever the gate is closed.

    There is no lock, for whoever closes the gate may be interrupted while it has one. Instead a part first says that it
    is inside and then looks whether the gate is closed; whoever closes it does so first and then looks who is inside.
    """

    def __init__(self, num_parts: int) -> None:
        self._is_inside = [False] * num_parts
        self._num_come = [0] * num_parts  # how often each part has come to write together
        self._bells = [Bell() for _ in range(num_parts)]
        self._left = Bell()
        self._may_write: dict[int, bool] = {}  # by how often they have come: what was decided for all
        self._is_closed = False

    @contextmanager
    def writing(self, part: int, *, together: bool) -> Iterator[None]:
        """Let a part write in the block; raise Stopped if the gate is closed."""
        self._is_inside[part] = True
        try:
            if not (self._is_let_in_with_all(part) if together else not self._is_closed):
                raise Stopped
            yield
        finally:
            self._is_inside[part] = False
            self._left.ring()

    def _is_let_in_with_all(self, part: int) -> bool:
        self._num_come[part] += 1
        turn = self._num_come[part]
        if min(self._num_come) >= turn:
            self._ring_all()
        while min(self._num_come) < turn and not self._is_closed:
            self._bells[part].wait()
        # The first to say so decides for all: setdefault is one operation of the interpreter.
        may_write = self._may_write.setdefault(turn, min(self._num_come) >= turn and not self._is_closed)
        self._may_write.pop(turn - 1, None)
        return may_write

    def _ring_all(self) -> None:
        for bell in self._bells:
            bell.ring()

    def close(self) -> None:
        """Let nobody in any more."""
        self._is_closed = True
        self._ring_all()

    def wait_until_free(self, limit_s: float) -> bool:
        """Wait until nobody is inside, and return whether that is so; for a gate that is closed."""
        deadline = time.monotonic() + limit_s
        while any(self._is_inside) and time.monotonic() < deadline:
            self._left.wait(max(0.0, deadline - time.monotonic()))
        return not any(self._is_inside)
