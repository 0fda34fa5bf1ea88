"""What a run shows of itself while it trains: counts of single parts, and readings made of them."""

import math
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Gauge:
    """What one part has done so far, and when that was by its own clock."""

    part: int
    at_s: float
    busy_s: float  # within segments, losses and updates; not waiting, and not predicting
    staleness: float  # mean updates between a forward pass and its update
    sent_bytes: int  # to other parts


@dataclass(frozen=True)
class Reading:
    """Where a run stands; rates and shares are since the reading before."""

    epoch: int  # from 1
    num_batches: int  # whose loss is known, of all epochs
    seconds: float  # since this run began
    losses: tuple[float, ...]  # of the last of these mini-batches: those since the reading before
    images_per_s: float | None  # None where there was no training
    busy: tuple[float | None, ...]  # the share of its time that each part computed; None of a part nobody has heard
    staleness: tuple[float | None, ...]
    moved_bytes: int  # so far, between parts
    test_accuracy: float | None = None  # where an epoch has just ended

    @property
    def loss(self) -> float | None:
        """The mean loss; None where there is none, or no number."""
        mean = sum(self.losses) / len(self.losses) if self.losses else math.nan
        return mean if math.isfinite(mean) else None

    def as_json(self) -> dict[str, Any]:
        """Return the reading with its mean loss instead of every one."""
        found = {name: value for name, value in asdict(self).items() if name != "losses"}
        return found | {"loss": self.loss}
