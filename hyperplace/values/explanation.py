"""Why a layer is where it is: what it moves there, and what it would cost elsewhere."""

from dataclasses import dataclass

from hyperplace.values.plan import Plan, PlannedLayer


@dataclass(frozen=True)
class Place:
    """Where a layer, with all that are tied to it, is or might be, and what the whole plan costs then."""

    name: str
    plan: Plan  # its pins left aside
    breaks: tuple[str, ...] = ()  # the imbalance, the memory of a device, a pin
    seconds: float | None = None  # of a mini-batch on a cluster
    binds: str = ""  # there

    @property
    def cost(self) -> tuple[bool, float]:
        """By which places are compared: what may be first, then seconds, or bytes of training."""
        return bool(self.breaks), self.plan.metrics.training_volume_bytes if self.seconds is None else self.seconds


@dataclass(frozen=True)
class Explanation:
    """One layer of a plan; bytes are of a mini-batch, forward but for those of copies."""

    plan: Plan
    layer: PlannedLayer
    tied: tuple[str, ...]  # the layers that move with it
    received_bytes: int  # of what it reads, by the parts that have some of it
    sent_bytes: int  # of its output
    partial_bytes: int  # of its partial sums, to their owners
    copy_bytes: int  # of training: its weights and gradients where rows are apart, its statistics
    beside: tuple[tuple[int, tuple[str, ...]], ...]  # of every part that has some of it, the other layers there
    here: Place
    others: tuple[Place, ...]  # the best first
