"""The loss of a mini-batch that may still be under way, which is a number for whoever uses it as one."""

from collections.abc import Callable
from typing import Any

import numpy as np
from torch import Tensor

from hyperplace.errors import TrainingError


class Loss:
    """There when asked for: `item()` waits for the mini-batch, which lets the pipe run dry; `is_ready` does not.

    Formatting, comparing and computing with it ask for it too: `sum(losses) / len(losses)`, `f"{loss:.3f}"`.
    """

    def __init__(self, num_pieces: int, flush: Callable[[], None]) -> None:
        self._num_missing, self._flush = num_pieces, flush
        self._value: Tensor | None = None

    def add(self, piece: Tensor) -> None:
        """Take the loss of a micro-batch, weighed by its rows; called by one rank only."""
        self._value = piece if self._value is None else self._value + piece
        self._num_missing -= 1

    @property
    def is_ready(self) -> bool:
        return self._num_missing == 0

    def item(self) -> float:
        """Return the number, waiting for it if need be."""
        if not self.is_ready:
            self._flush()
        if not self.is_ready or self._value is None:
            raise TrainingError("this mini-batch was cut off before it had a loss, because the trainer was closed")
        return float(self._value)

    def __repr__(self) -> str:
        return f"Loss({float(self._value):.4g})" if self.is_ready and self._value is not None else "Loss(under way)"

    def __format__(self, spec: str) -> str:
        return format(self.item(), spec) if spec else repr(self)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        return np.asarray(self.item(), dtype)

    def __float__(self) -> float:
        return self.item()

    def __int__(self) -> int:
        return int(self.item())

    def __bool__(self) -> bool:
        return bool(self.item())

    def __round__(self, ndigits: int | None = None) -> float:
        return round(self.item(), ndigits)

    def __abs__(self) -> float:
        return abs(self.item())

    def __neg__(self) -> float:
        return -self.item()

    def __hash__(self) -> int:
        return hash(self.item())

    # The other side may be a number, a tensor, an array or another loss: each knows what to do with a float.

    def __eq__(self, other: object) -> Any:
        return self.item() == other

    def __lt__(self, other: Any) -> Any:
        return self.item() < other

    def __le__(self, other: Any) -> Any:
        return self.item() <= other

    def __gt__(self, other: Any) -> Any:
        return self.item() > other

    def __ge__(self, other: Any) -> Any:
        return self.item() >= other

    def __add__(self, other: Any) -> Any:
        return self.item() + other

    def __sub__(self, other: Any) -> Any:
        return self.item() - other

    def __rsub__(self, other: Any) -> Any:
        return other - self.item()

    def __mul__(self, other: Any) -> Any:
        return self.item() * other

    def __truediv__(self, other: Any) -> Any:
        return self.item() / other

    def __rtruediv__(self, other: Any) -> Any:
        return other / self.item()

    def __pow__(self, other: Any) -> Any:
        return self.item() ** other

    __radd__, __rmul__ = __add__, __mul__
