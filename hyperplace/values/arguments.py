"""What a user may have given instead of a number."""

from collections.abc import Iterator
from numbers import Integral, Real
from typing import Any


def is_number(value: Any) -> bool:
    """Say whether a value is a real number; True and False are none."""
    return isinstance(value, Real) and not isinstance(value, bool)


def is_whole(value: Any) -> bool:
    """Say whether a value is a whole number, numpy's among them; 2.0 and "2" are none."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def count_faults(name: str, value: Any, least: int = 1) -> Iterator[str]:
    """Say what is wrong with an argument that should be a count."""
    if not is_whole(value):
        yield f"{name} {value!r} is {type(value).__name__}, not a whole number; give {name}={_meant(value, least)}"
    elif value < least:
        yield f"{name} {value} is less than {least}"


def _meant(value: Any, least: int) -> str:
    """Return the number that text or a fraction without one may stand for, or the least that is allowed."""
    text = str(value).removesuffix(".0")
    return text if text.isdecimal() and int(text) >= least else f"{least} or more"
