"""Input shapes as users write them: `3x224x224` is channels x height x width of one row of the batch."""

import math
import re
from reprlib import repr as short

from hyperplace.errors import UsageError

MAX_ELEMENTS = 2**31
REMEDY = "write sizes joined by x, like --input 3x224x224"


def parse_shape(text: str) -> tuple[int, ...]:
    """Read `3x224x224` as (3, 224, 224)."""
    if not re.fullmatch(r"-?[0-9]+(x-?[0-9]+)*", text):
        raise UsageError(f"input shape {short(text)} is not a list of sizes; {REMEDY}")
    sizes = text.split("x")
    # Checked on the text: int() refuses thousands of digits with an error of its own.
    if any(len(size) > len(str(MAX_ELEMENTS)) for size in sizes):
        raise _too_large(text)
    shape = tuple(int(size) for size in sizes)
    if min(shape) < 1:
        raise UsageError(f"input shape {short(text)} has the size {min(shape)}, but 1 is the smallest; {REMEDY}")
    if math.prod(shape) > MAX_ELEMENTS:
        raise _too_large(text)
    return shape


def _too_large(text: str) -> UsageError:
    return UsageError(f"input shape {short(text)} has more than {MAX_ELEMENTS} elements a row; {REMEDY}")
