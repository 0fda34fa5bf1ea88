"""What every layer costs, for one mini-batch: measured seconds or counted FLOPs.

Work is a number in the profile's unit ("flops" or "us"). A coarse vertex of n filters weighs n * filter_work. A
fine kernel of n filters by c channels weighs n * c * kernel_work, its reduction n * tail_work.
"""

from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True)
class Timing:
    """What was run for a measured layer: medians in seconds for `rows` rows, scaled to nothing."""

    rows: int
    repeats: int
    forward_s: float
    backward_s: float
    tail_s: float  # forward and backward of the trailing operations
    update_s: float
    half_filters_s: float  # forward and backward of the anchor with half its filters; 0 where not split
    half_channels_s: float  # the same with half its channels
    spread: float  # (slowest - fastest) / median of the anchor's repeats


@dataclass(frozen=True)
class LayerCost:
    """The work of one layer per filter, per channel kernel and per reduced filter."""

    layer: str
    filter_work: float
    kernel_work: float = 0.0
    tail_work: float = 0.0
    timing: Timing | None = None


@dataclass(frozen=True)
class Profile:
    """The cost of every layer for one mini-batch of `batch` rows."""

    costs: str  # "flops" or "measured"
    unit: str  # "flops" or "us"
    batch: int
    layers: tuple[LayerCost, ...]
    machine: str = ""  # what the measurement ran on; empty for flops

    def __repr__(self) -> str:
        where = f" on {self.machine}" if self.machine else ""
        return f"Profile({self.costs}, {len(self.layers)} layers, batch {self.batch}{where})"

    @cached_property
    def _by_name(self) -> dict[str, LayerCost]:
        return {cost.layer: cost for cost in self.layers}

    def __getitem__(self, layer: str) -> LayerCost:
        return self._by_name[layer]

    def __contains__(self, layer: str) -> bool:
        return layer in self._by_name
