"""What every layer costs, for one mini-batch: measured seconds or counted FLOPs.

Work is in the profile's unit ("flops" or "us"), its passes apart. A coarse vertex of n filters weighs n * filter_work.
A fine kernel of n filters by c channels weighs n * c * kernel_work, its reduction n * tail_work.
"""

import math
import platform
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass
from functools import cached_property
from pathlib import Path
from statistics import median
from typing import Any

from hyperplace.errors import UsageError

UNIT_OF = {"flops": "flops", "measured": "us"}


@dataclass(frozen=True)
class Work:
    """What a mini-batch costs forward, backward, and in the update of parameters, in one unit."""

    forward: float = 0.0
    backward: float = 0.0
    update: float = 0.0

    @property
    def total(self) -> float:
        return self.forward + self.backward + self.update

    def __add__(self, other: "Work") -> "Work":
        return Work(self.forward + other.forward, self.backward + other.backward, self.update + other.update)

    def __sub__(self, other: "Work") -> "Work":
        return self + other * -1

    def __mul__(self, times: float) -> "Work":
        return Work(self.forward * times, self.backward * times, self.update * times)

    def __truediv__(self, shares: float) -> "Work":
        return Work(self.forward / shares, self.backward / shares, self.update / shares)


@dataclass(frozen=True)
class Timing:
    """What was run for a measured layer: medians in seconds for `rows` rows, scaled to nothing."""

    rows: int
    repeats: int
    anchor_s: Work  # forward and backward only: the update does not grow with the rows
    tail_s: Work  # of the trailing operations
    update_s: float  # of all trained parameters, those of the trailing operations too
    half_filters_s: Work  # of the anchor with half its filters; nothing where not split
    half_channels_s: Work  # the same with half its channels
    half_rows_s: Work  # of anchor and tail with half the rows; nothing where there is but one
    spread: float  # (slowest - fastest) / median of the anchor's repeats, of the worst round


def middle_timing(rounds: Sequence[Timing]) -> Timing:
    """Return the medians of what several rounds measured with the same rows."""

    def middle(name: str) -> Work:
        return Work(*(median(passes) for passes in zip(*(astuple(getattr(one, name)) for one in rounds), strict=True)))

    return Timing(
        rows=rounds[0].rows,
        repeats=sum(one.repeats for one in rounds),
        anchor_s=middle("anchor_s"),
        tail_s=middle("tail_s"),
        update_s=median(one.update_s for one in rounds),
        half_filters_s=middle("half_filters_s"),
        half_channels_s=middle("half_channels_s"),
        half_rows_s=middle("half_rows_s"),
        spread=max(one.spread for one in rounds),
    )


@dataclass(frozen=True)
class LayerCost:
    """The work of one layer per filter, per channel kernel and per reduced filter."""

    layer: str
    filter: Work  # with all its kernels and its tail
    kernel: Work = Work()  # of one filter and one channel
    tail: Work = Work()  # of one filter: the trailing operations
    timing: Timing | None = None
    note: str = ""  # why it was measured in part only, or estimated
    half_rows: float = 0.5  # what half the rows cost, as a share of all: a half, if nothing were lost

    @property
    def filter_work(self) -> float:
        return self.filter.total

    @property
    def kernel_work(self) -> float:
        return self.kernel.total

    @property
    def tail_work(self) -> float:
        return self.tail.total


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
            if not all(math.isfinite(number) and number >= 0 for number in _numbers(astuple(cost))):
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


def cost_of_rows(half: float, share: float) -> float:
    """Return what a share of the rows costs, as a share of what all cost, going by what half of them do.

    A line through all and half the rows, and on to what no rows would cost: what is fixed. Libraries have kernels that
    are several times as fast with 16 rows as with 8; where half the rows cost more than all, fewer cost no less.
    """
    if share >= 0.5:
        return half + (1 - half) * (share - 0.5) / 0.5
    least = min(max(2 * half - 1, 0.0), half)
    return least + (half - least) * share / 0.5


def _numbers(values: tuple[Any, ...]) -> Iterator[float]:
    """Yield every number of nested tuples."""
    for value in values:
        if isinstance(value, tuple):
            yield from _numbers(value)
        elif isinstance(value, int | float):
            yield value


def machine_line(device: str = "cpu", threads: int | None = None) -> str:
    """Return for instance `AMD EPYC, 2 threads, cpu, torch 2.13.0`: all that a timing depends on but the model.

    `threads` None means as many as torch uses now.
    """
    import torch

    threads = threads or torch.get_num_threads()
    noun = "thread" if threads == 1 else "threads"
    return f"{_processor(device)}, {threads} {noun}, {device}, torch {torch.__version__}"


def _processor(device: str) -> str:
    if device.startswith("cuda"):
        import torch

        return torch.cuda.get_device_name(device) if torch.cuda.is_available() else "no GPU"
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def size_and_unit(work_unit: str) -> tuple[float, str]:
    """Return how large a unit of weights or plans is: (37632.0, "flops") of `37632 flops`; a bare word is itself."""
    size, _, unit = work_unit.partition(" ")
    try:
        return float(size), unit
    except ValueError:
        return 1.0, work_unit
