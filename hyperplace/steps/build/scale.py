"""Whole numbers for partitioners: the one place where work becomes integer weights.

Partitioners add weights up in 32 bits. Counted work is divided by its greatest common divisor, which loses
nothing; measured work is rounded to a tick fine enough that no layer notices.
"""

import numpy as np

from hyperplace.values.arrays import Floats, Ints
from hyperplace.values.hypergraph import INT32_MAX


def whole_weights(work: Floats, unit: str) -> tuple[Ints, str]:
    """Return integer weights whose sum fits into 31 bits, and what one of them is worth."""
    if np.all(work == np.rint(work)) and work.max(initial=0) < 2**62:
        counts = work.astype(np.int64)
        divisor = int(np.gcd.reduce(counts)) or 1
        if int(counts.sum()) // divisor <= INT32_MAX:
            return counts // divisor, f"{divisor} {unit}"
    total = float(work.sum())
    tick = 10.0 ** np.ceil(np.log10(total / 2**30))
    weights = np.rint(work / tick).astype(np.int64)
    return np.where(work > 0, np.maximum(weights, 1), 0), f"{tick:g} {unit}"
