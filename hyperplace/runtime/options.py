"""What all ranks of a run have in common."""

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Options:
    """How ranks compute the loss, and when they update."""

    loss: Callable[..., Tensor] | None
    updates_at_once: bool  # async: update right after the backward pass of a mini-batch
    updates_together: bool  # no part updates before all are ready to: all have the same number of updates
    seed: int
    threads: int
    check_nan: bool
