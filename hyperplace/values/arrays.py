"""What a frozen value that holds numpy arrays needs: read-only arrays and equality by content."""

from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


def frozen_ints(values: Any) -> Ints:
    """Return the values as a read-only int64 array of their own; fractions are refused, not cut off."""
    given = np.asarray(values)
    array: Ints = np.array(given, dtype=np.int64)
    if given.dtype.kind == "f" and not np.array_equal(given, array):
        raise ValueError(f"these are not whole numbers: {given[given != array][:3]}")
    array.setflags(write=False)
    return array


class ArrayValue:
    """Equality by content for dataclasses declared with `eq=False`, whose fields may be arrays."""

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        return all(
            np.array_equal(getattr(self, f.name), getattr(other, f.name))
            if isinstance(getattr(self, f.name), np.ndarray)
            else getattr(self, f.name) == getattr(other, f.name)
            for f in fields(self)  # type: ignore[arg-type]
        )

    __hash__ = None  # type: ignore[assignment]
