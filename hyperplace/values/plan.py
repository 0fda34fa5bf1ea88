"""Who computes and owns what, and every message that takes: the answer a user keeps.

A filter is owned by one part: that part has its output, after reduction and trailing operations. A shard is one dense
piece of a layer's anchor on one part: filters by channels by rows. In the coarse grain the owner computes all of
a filter; in the fine grain other parts compute partial sums and send them to the owner.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hyperplace.errors import HyperplaceError, UsageError
from hyperplace.values.arrays import Ints

Range = tuple[int, int]
Ranges = tuple[Range, ...]

GRAINS = ("coarse", "fine")
FC = ("neurons", "whole")
COSTS = ("measured", "flops")
PROVEN_GAP = 1e-3  # a volume this close to its bound counts as optimal


@dataclass(frozen=True)
class Settings:
    """What was asked for; `blocks` None means one per filter."""

    model: str
    k: int
    imbalance: float
    grain: str
    partitioner: str
    costs: str
    batch: int
    blocks: int | None = 64
    fc: str = "neurons"
    seed: int = 0

    def __post_init__(self) -> None:
        if faults := list(self._faults()):
            raise UsageError("; ".join(faults))

    def _faults(self) -> Iterator[str]:
        if self.k < 1:
            yield f"k={self.k} is not a number of parts; give --k 1 or more"
        if not (math.isfinite(self.imbalance) and self.imbalance >= 0):
            yield f"imbalance {self.imbalance} is not a ratio; give --imbalance 0 or more, such as 0.1"
        if self.batch < 1:
            yield f"batch {self.batch} has no rows; give --batch 1 or more"
        if self.blocks is not None and self.blocks < 1:
            yield f"blocks {self.blocks} is less than 1; give the most blocks per layer, or all"
        if self.seed < 0:
            yield f"seed {self.seed} is negative; give --seed 0 or more"
        for name, word, known in (("grain", self.grain, GRAINS), ("fc", self.fc, FC), ("costs", self.costs, COSTS)):
            if word not in known:
                yield f"{name} {word!r} is unknown; choose one of {', '.join(known)}"


@dataclass(frozen=True)
class Shard:
    """One part's dense piece of one layer; channels are those of the layer's first operand."""

    part: int
    filters: Ranges
    channels: Ranges
    rows: Range


@dataclass(frozen=True)
class Owner:
    """The filters of a layer whose finished output lives on a part."""

    part: int
    filters: Ranges


@dataclass(frozen=True)
class PlannedLayer:
    """One layer with its owners and shards, both in the order of their parts."""

    name: str
    kind: str
    rule: str
    num_filters: int
    num_channels: int
    owners: tuple[Owner, ...]
    shards: tuple[Shard, ...]
    reason: str = ""  # why it was placed whole

    @cached_property
    def owner_of(self) -> Ints:
        """The part of every filter."""
        parts = np.full(self.num_filters, -1, np.int64)
        for owner in self.owners:
            for start, stop in owner.filters:
                parts[start:stop] = owner.part
        return parts


@dataclass(frozen=True)
class Transfer:
    """One message per mini-batch: outputs of a layer from the part that owns them to one that reads them."""

    layer: str
    source: int
    target: int
    filters: Ranges
    num_bytes: int
    learns: bool = True  # its gradient comes back, as many bytes


@dataclass(frozen=True)
class Reduction:
    """One message per mini-batch: partial sums of a layer to the part that owns the filters."""

    layer: str
    source: int
    target: int
    filters: Ranges
    num_bytes: int
    learns: bool = True


@dataclass(frozen=True)
class PartMetrics:
    """What one part does and holds for one mini-batch; memory is weights, gradients and activations."""

    work: int
    parameter_bytes: int
    activation_bytes: int
    memory_bytes: int
    sent_bytes: int
    received_bytes: int
    num_sent: int
    num_received: int


@dataclass(frozen=True)
class Metrics:
    """What a plan costs; volumes are bytes per mini-batch."""

    work_unit: str
    parts: tuple[PartMetrics, ...]
    volume_bytes: int  # forward: the connectivity volume
    training_volume_bytes: int  # forward and backward; what nothing trained precedes, like the input, has no gradient
    num_cut_nets: int
    cut_net_bytes: int
    data_parallel_bytes: int  # 2 (k - 1) x parameter bytes
    feasible: bool
    found_by: str = ""  # the partitioner whose result this is
    bound_bytes: int | None = None  # no balanced placement of this grain moves less, forward
    is_cut_short: bool = False  # a time limit or an interrupt ended the search

    @property
    def work_per_part(self) -> tuple[int, ...]:
        return tuple(part.work for part in self.parts)

    @property
    def total_work(self) -> int:
        return sum(self.work_per_part)

    @property
    def max_over_avg(self) -> float:
        return max(self.work_per_part) * len(self.parts) / self.total_work if self.total_work else 1.0

    @property
    def gap(self) -> float | None:
        """Return how far above the best possible the volume may be, as a ratio; None without a bound."""
        if self.bound_bytes is None:
            return None
        return max(0.0, self.volume_bytes / self.bound_bytes - 1) if self.bound_bytes else float(self.volume_bytes > 0)

    @property
    def verdict(self) -> str:
        """Say how good the placement is known to be."""
        if not self.feasible:
            return "over the limit"
        if self.gap is None or (not self.bound_bytes and self.volume_bytes):
            return "no bound"
        return "optimal (proven)" if self.gap <= PROVEN_GAP else f"within {self.gap:.1%} of the best possible"

    @property
    def max_over_min(self) -> float:
        low = min(self.work_per_part)
        return max(self.work_per_part) / low if low else float("inf")

    @property
    def max_times_k(self) -> int:
        return max(self.work_per_part) * len(self.parts)


@dataclass(frozen=True)
class Plan:
    """The placement of a model: every filter owned once, every byte that crosses listed."""

    settings: Settings
    layers: tuple[PlannedLayer, ...]
    transfers: tuple[Transfer, ...]
    reductions: tuple[Reduction, ...]
    metrics: Metrics
    inputs: tuple[tuple[int, ...], ...] = ()  # the shape of every input of the model, without its rows

    def __post_init__(self) -> None:
        if faults := [*self._layer_faults(), *self._message_faults(), *self._metric_faults()]:
            more = f" (and {len(faults) - 5} more)" if len(faults) > 5 else ""
            raise HyperplaceError("not a plan: " + "; ".join(faults[:5]) + more)

    def __repr__(self) -> str:
        s, m = self.settings, self.metrics
        return (
            f"Plan({s.model}, k={s.k}, {s.grain} by {s.partitioner}, max/avg {m.max_over_avg:.3f}, "
            f"{m.volume_bytes / 2**20:.1f} MiB forward in {len(self.messages)} messages)"
        )

    def _layer_faults(self) -> list[str]:
        faults = []
        for layer in self.layers:
            owned = np.zeros(layer.num_filters, np.int64)
            for owner in layer.owners:
                faults += _part_faults(layer.name, owner.part, self.settings.k)
                faults += _range_faults(layer.name, "filters", owner.filters, layer.num_filters)
                for start, stop in owner.filters:
                    owned[max(start, 0) : max(stop, 0)] += 1
            if np.any(owned != 1):
                wrong = int(np.argmax(owned != 1))
                faults.append(f"filter {wrong} of {layer.name} has {owned[wrong]} owners instead of 1")
            for shard in layer.shards:
                faults += _part_faults(layer.name, shard.part, self.settings.k)
                faults += _range_faults(layer.name, "filters", shard.filters, layer.num_filters)
                faults += _range_faults(layer.name, "channels", shard.channels, layer.num_channels)
                faults += _range_faults(layer.name, "rows", (shard.rows,), self.settings.batch)
        return faults

    @property
    def messages(self) -> "tuple[Transfer | Reduction, ...]":
        """Return every message of the forward pass."""
        return (*self.transfers, *self.reductions)

    def _message_faults(self) -> list[str]:
        faults = []
        sizes = {layer.name: layer.num_filters for layer in self.layers}
        for message in self.messages:
            where = f"a message of {message.layer}"
            if message.layer not in sizes:
                faults.append(f"{where}: there is no such layer")
                continue
            faults += _part_faults(where, message.source, self.settings.k)
            faults += _part_faults(where, message.target, self.settings.k)
            faults += _range_faults(where, "filters", message.filters, sizes[message.layer])
            if message.source == message.target or message.num_bytes < 0:
                faults.append(f"{where} goes from part {message.source} to {message.target}: {message.num_bytes} bytes")
        return faults

    def _metric_faults(self) -> list[str]:
        faults = []
        moved = sum(message.num_bytes for message in self.messages)
        if moved != self.metrics.volume_bytes:
            faults.append(f"its messages move {moved} bytes, but volume_bytes is {self.metrics.volume_bytes}")
        both_ways = moved + sum(message.num_bytes for message in self.messages if message.learns)
        if both_ways != self.metrics.training_volume_bytes:
            named = f"training_volume_bytes is {self.metrics.training_volume_bytes}"
            faults.append(f"its messages and their gradients move {both_ways} bytes, but {named}")
        if len(self.metrics.parts) != self.settings.k:
            faults.append(f"it has metrics of {len(self.metrics.parts)} parts, but k={self.settings.k}")
        return faults


def _part_faults(where: str, part: int, num_parts: int) -> list[str]:
    return [] if 0 <= part < num_parts else [f"{where} names part {part}, outside 0..{num_parts - 1}"]


def _range_faults(where: str, what: str, ranges: Ranges, size: int) -> list[str]:
    return [
        f"{where} has {what} {start}:{stop}, outside 0:{size}"
        for start, stop in ranges
        if not 0 <= start < stop <= size
    ]
