"""Find the operation that made a value that is not a number."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode


def check_finite(results: list[Tensor], again: Callable[[], object]) -> None:
    """Raise FloatingPointError if a result is infinite or NaN; `again` is run to see where that began."""
    if all(_is_finite(result) for result in results):
        return
    with torch.no_grad(), _Watch():  # type: ignore[no-untyped-call]
        again()
    raise FloatingPointError("a value is infinite or not a number")


def _is_finite(value: Any) -> bool:
    if not isinstance(value, Tensor) or not (value.is_floating_point() or value.is_complex()):
        return True
    return bool(torch.isfinite(value).all())


class _Watch(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Raise at the first operation whose result is not finite."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if not all(_is_finite(value) for value in (result if isinstance(result, tuple | list) else [result])):
            raise FloatingPointError(f"{func} gives a value that is infinite or not a number")
        return result
