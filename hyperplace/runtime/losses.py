"""The loss of a mini-batch that may still be under way."""

from collections.abc import Callable

from torch import Tensor


class Loss:
    """There when asked for: `item()` waits for the mini-batch, which lets the pipe run dry; `is_ready` does not."""

    def __init__(self, num_pieces: int, flush: Callable[[], None]) -> None:
        self._num_missing, self._flush = num_pieces, flush
        self._value: Tensor | None = None

    def add(self, piece: Tensor) -> None:
        """Take the loss of a micro-batch, weighed by its rows; called by one worker only."""
        self._value = piece if self._value is None else self._value + piece
        self._num_missing -= 1

    @property
    def is_ready(self) -> bool:
        return self._num_missing == 0

    def item(self) -> float:
        """Return the number, waiting for it if need be."""
        if not self.is_ready:
            self._flush()
        assert self._value is not None
        return float(self._value)

    def __float__(self) -> float:
        return self.item()

    def __repr__(self) -> str:
        return f"Loss({float(self._value):.4g})" if self.is_ready and self._value is not None else "Loss(under way)"
