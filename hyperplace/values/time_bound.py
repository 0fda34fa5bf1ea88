"""What no plan can take less than on a cluster, and what it is that nothing can be faster than."""

from dataclasses import dataclass


@dataclass(frozen=True)
class TimeBound:
    """Seconds of a mini-batch that every plan takes at least; `binds` is what stands in the way of fewer."""

    seconds: float
    binds: str
