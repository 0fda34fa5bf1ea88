"""What every layer costs, for one mini-batch: measured seconds or counted FLOPs.

Work is a number in the profile's unit ("flops" or "us"). A coarse vertex of n filters weighs n * filter_work. A
fine kernel of n filters by c channels weighs n * c * kernel_work, its reduction n * tail_work.
"""

import math
from collections.abc import Iterator
from dataclasses import astuple, dataclass
from functools import cached_property

from hyperplace.errors import UsageError

UNIT_OF = {"flops": "flops", "measured": "us"}


@dataclass(frozen=True)
class Timing:
    """What was run for a measured layer: medians in seconds for `rows` rows, scaled to nothing."""

    rows: int
    repeats: int
    forward_s: float  # of the anchor
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
    note: str = ""  # why it was measured in part only, or estimated


@dataclass(frozen=True)
class Profile:
    """The cost of every layer for one mini-batch of `batch` rows."""

    costs: str  # "flops" or "measured"
    unit: str  # "flops" or "us"
    batch: int
    layers: tuple[LayerCost, ...]
    machine: str = ""  # what the measurement ran on; empty for flops
    graph: str = ""  # the mark of the layers it is of; empty where not known

    def __post_init__(self) -> None:
        if faults := list(self._faults()):
            raise UsageError("; ".join(faults))

    def _faults(self) -> Iterator[str]:
        if UNIT_OF.get(self.costs) != self.unit:
            known = " or ".join(f"{costs} in {unit}" for costs, unit in UNIT_OF.items())
            yield f"costs {self.costs!r} in {self.unit!r} are unknown, only {known}"
        if self.batch < 1:
            yield f"batch {self.batch} has no rows"
        if len(self._by_name) < len(self.layers):
            yield "two layers have one name"
        for cost in self.layers:
            numbers = (
                cost.filter_work,
                cost.kernel_work,
                cost.tail_work,
                *(astuple(cost.timing) if cost.timing else ()),
            )
            if not all(math.isfinite(number) and number >= 0 for number in numbers):
                yield f"layer {cost.layer} has a cost that is negative or not a number"
            elif cost.timing and not (cost.timing.rows and cost.timing.repeats):
                yield f"layer {cost.layer} was timed with no rows or no repeats"

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
