"""What a plan is asked for: a model, how many parts, by which rules; checked when it is made."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

from hyperplace.errors import UsageError
from hyperplace.values.arguments import count_faults, is_number, is_whole
from hyperplace.values.hosts import Hosts, host_faults
from hyperplace.values.pins import Pins

GRAINS = ("coarse", "fine", "hybrid")
AUTO = "auto"  # asked for: whichever grain moves least in training
FC = ("neurons", "whole")
COSTS = ("measured", "flops")
BATCH_NORMS = ("exact", "per-shard")
MOST_ROWS = 2**16  # of a mini-batch: cells are counted one by one


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What was asked for; `blocks` None means one per filter, `row_blocks` are for the hybrid grain only.

    The grain may be "auto" until there is a plan, which is of one grain. `batch_norm` is for the hybrid grain: "exact"
    makes batch norms over split rows exchange their statistics, "per-shard" lets each part have its own. `hosts` says
    which parts share a host, where that is known and decides by which way weights with copies go.
    """

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
    row_blocks: int = 8
    batch_norm: str = "exact"
    pins: Pins = field(default=Pins(), metadata={"later": True})
    hosts: Hosts = field(default=(), metadata={"later": True})

    def __post_init__(self) -> None:
        if faults := list(self._faults()):
            raise UsageError("; ".join(faults))

    def _faults(self) -> Iterator[str]:
        kinds = list(self._kind_faults())
        yield from kinds or self._value_faults()  # what is no number has no size

    def _kind_faults(self) -> Iterator[str]:
        for name in ("k", "batch", "seed", "row_blocks"):
            if not is_whole(getattr(self, name)):
                yield from count_faults(name, getattr(self, name))
        if not is_whole(self.blocks) and self.blocks is not None:
            yield f"blocks {self.blocks!r} is no number of blocks; give blocks=64, or None for one per filter"
        if not is_number(self.imbalance):
            yield f"imbalance {self.imbalance!r} is {type(self.imbalance).__name__}, not a number; give imbalance=0.1"

    def _value_faults(self) -> Iterator[str]:
        if self.k < 1:
            yield f"k={self.k} is not a number of parts; give a k of 1 or more"
        if not (math.isfinite(self.imbalance) and self.imbalance >= 0):
            yield f"imbalance {self.imbalance} is not a ratio; give an imbalance of 0 or more, such as 0.1"
        if self.batch < 1:
            yield f"batch {self.batch} has no rows; give a batch of 1 or more"
        if self.batch > MOST_ROWS:
            yield f"batch {self.batch:.7g} is more than {MOST_ROWS:,} rows; give a smaller batch"
        if self.blocks is not None and self.blocks < 1:
            yield f"blocks {self.blocks} is less than 1; give the most blocks per layer, or all"
        if self.row_blocks < 1:
            yield f"row blocks {self.row_blocks} is less than 1; give 1 row block or more"
        if not 0 <= self.seed < 2**31:
            yield f"seed {self.seed} is outside 0..{2**31 - 1}; give another seed"
        words = (
            ("grain", self.grain, (*GRAINS, AUTO)),
            ("fc", self.fc, FC),
            ("costs", self.costs, COSTS),
            ("batch norm", self.batch_norm, BATCH_NORMS),
        )
        for name, word, known in words:
            if word not in known:
                yield f"{name} {word!r} is unknown; choose one of {', '.join(known)}"
        yield from host_faults(self.hosts, self.k)
