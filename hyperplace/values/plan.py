"""Who computes and owns what, and every message that takes: the answer a user keeps.

A cell is one row of the batch of one filter's output. It is owned by one part: that part has it, after reduction and
trailing operations. A shard is one dense piece of a layer's anchor on one part: filters by channels by rows. In the
coarse grain the owner computes all rows of a filter; in the fine grain other parts compute partial sums and send
them to the owner; in the hybrid grain the rows of a filter may have several owners, and all of them hold its weights.
"""

from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from hyperplace.errors import HyperplaceError
from hyperplace.values.arrays import Ints
from hyperplace.values.drawn import Drawn
from hyperplace.values.facts import Facts
from hyperplace.values.faults import first_of, plan_faults
from hyperplace.values.profile import Work
from hyperplace.values.program import piece_rows, rows_at
from hyperplace.values.ranges import Range as Range
from hyperplace.values.ranges import Ranges as Ranges
from hyperplace.values.settings import AUTO as AUTO
from hyperplace.values.settings import BATCH_NORMS as BATCH_NORMS
from hyperplace.values.settings import COSTS as COSTS
from hyperplace.values.settings import FC as FC
from hyperplace.values.settings import GRAINS as GRAINS
from hyperplace.values.settings import MOST_ROWS as MOST_ROWS
from hyperplace.values.settings import Settings as Settings
from hyperplace.values.sizes import size

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PROVEN_GAP = 1e-3  # a volume this close to its bound counts as optimal


@dataclass(frozen=True)
class Shard:
    """One part's dense piece of one layer; channels are those of the layer's first operand."""

    part: int
    filters: Ranges
    channels: Ranges
    rows: Range


@dataclass(frozen=True)
class Owner:
    """The filters and rows of a layer whose finished output lives on a part; a part may have several such pieces."""

    part: int
    filters: Ranges
    rows: Range


@dataclass(frozen=True)
class PlannedWork:
    """What a mini-batch costs forward, backward and in the update, in whole units of the plan's work."""

    forward: int = 0
    backward: int = 0
    update: int = 0

    @property
    def total(self) -> int:
        return self.forward + self.backward + self.update

    @classmethod
    def shared(cls, total: int, like: Work) -> "PlannedWork":
        """Share a total out between the passes as some work is, to the nearest whole numbers that add up to it."""
        if not total:
            return cls()
        # Running sums are rounded, not passes: none can become negative, and where nothing is updated nothing is left.
        forward, both = (round(total * work / like.total) for work in (like.forward, like.forward + like.backward))
        return cls(forward, both - forward, total - both)


@dataclass(frozen=True)
class PlannedLayer:
    """One layer with its owners and shards, both in the order of their parts.

    `work` is that of all its cells and `kernel_work` that of all its kernels. Only the fine grain weighs these apart:
    then `work` is that of the trailing operations, and otherwise `kernel_work` is nothing.
    """

    name: str
    kind: str
    rule: str
    num_filters: int
    num_channels: int
    owners: tuple[Owner, ...]
    shards: tuple[Shard, ...]
    reason: str = ""  # why it was placed whole
    facts: Facts = field(default_factory=Facts)
    work: PlannedWork = PlannedWork()
    kernel_work: PlannedWork = PlannedWork()

    @cached_property
    def owner_of(self) -> Ints:
        """The part of every filter, where all rows of a filter are on one part."""
        return self.owner_of_row(0)

    def owner_of_row(self, row: int) -> Ints:
        """Return the part of one row of every filter."""
        parts = np.full(self.num_filters, -1, np.int64)
        for owner in self.owners:
            if owner.rows[0] <= row < owner.rows[1]:
                for start, stop in owner.filters:
                    parts[start:stop] = owner.part
        return parts

    @property
    def parts(self) -> frozenset[int]:
        """The parts that have or compute any of it."""
        return frozenset([*(owner.part for owner in self.owners), *(shard.part for shard in self.shards)])

    @cached_property
    def row_edges(self) -> tuple[int, ...]:
        """Between two of these all rows of a filter have one owner."""
        return tuple(sorted({row for owner in self.owners for row in owner.rows}))


@dataclass(frozen=True)
class Transfer:
    """One message per mini-batch: outputs of a layer from the part that owns them to one that reads them."""

    layer: str
    source: int
    target: int
    filters: Ranges
    rows: Range
    num_bytes: int
    learns: bool = True  # its gradient comes back, as many bytes


@dataclass(frozen=True)
class Reduction:
    """One message per mini-batch: partial sums of a layer to the part that owns the filters."""

    layer: str
    source: int
    target: int
    filters: Ranges
    rows: Range
    num_bytes: int
    learns: bool = True


@dataclass(frozen=True)
class Replica:
    """A part's copy of the trained parameters of filters of which it computes some rows.

    `owner` computes some too: of the parts that do, the one that the plan has chosen to update them. Per iteration the
    part sends it parameter_bytes of gradients, and gets as many of weights after its update; or sends them to, and gets
    them from, a part on its own host that has the same copy, `via` which they go. statistics_bytes is one message about
    the filters' batch norms; four of them go: both ways, forward and backward, and always with the owner.
    """

    layer: str
    part: int
    owner: int
    filters: Ranges
    parameter_bytes: int
    statistics_bytes: int
    via: int | None = field(default=None, metadata={"later": True})

    @property
    def peer(self) -> int:
        """The part that it exchanges gradients and weights with."""
        return self.owner if self.via is None else self.via

    @property
    def training_bytes(self) -> int:
        return 2 * self.parameter_bytes + 4 * self.statistics_bytes


@dataclass(frozen=True)
class PartMetrics:
    """What one part does and holds for one mini-batch; memory is weights, gradients and activations.

    Sent and received are the messages of the forward pass.
    """

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
    """What a plan costs; volumes are bytes per mini-batch.

    volume_bytes are the activations and partial sums of the forward pass. training_volume_bytes are these, their
    gradients, and what replicas cost. The coarse and the fine grain minimise the first, the hybrid one the second
    (`judges_training`), and bound_bytes is about what is minimised. The hybrid grain's bound holds among placements
    that split each layer one way, by filters or by rows; one that cuts a layer both ways may move less.
    """

    work_unit: str
    parts: tuple[PartMetrics, ...]
    volume_bytes: int
    training_volume_bytes: int  # what nothing trained precedes, like the input, has no gradient
    data_parallel_bytes: int  # 2 (k - 1) x parameter bytes
    feasible: bool
    found_by: str = ""  # the partitioner whose result this is
    bound_bytes: int | None = None  # no balanced placement of this grain moves less (hybrid: that splits one way)
    is_cut_short: bool = False  # a time limit or an interrupt ended the search
    judges_training: bool = False

    @cached_property
    def work_per_part(self) -> tuple[int, ...]:
        return tuple(part.work for part in self.parts)

    @cached_property
    def total_work(self) -> int:
        return sum(self.work_per_part)

    @property
    def max_over_avg(self) -> float:
        return max(self.work_per_part) * len(self.parts) / self.total_work if self.total_work else 1.0

    @property
    def judged_bytes(self) -> int:
        """Return the volume that was minimised."""
        return self.training_volume_bytes if self.judges_training else self.volume_bytes

    @property
    def gap(self) -> float | None:
        """Return how far above the best possible the volume may be, as a ratio; None without a bound."""
        if self.bound_bytes is None:
            return None
        return max(0.0, self.judged_bytes / self.bound_bytes - 1) if self.bound_bytes else float(self.judged_bytes > 0)

    @property
    def verdict(self) -> str:
        """Say how good the placement is known to be, and among which."""
        if not self.feasible:
            return "over the limit"
        if self.gap is None or (not self.bound_bytes and self.judged_bytes):
            return "no bound"
        among = " among placements that split each layer one way" if self.is_bound_one_way else ""
        if self.gap <= PROVEN_GAP:
            return f"optimal{among} (proven)"
        return f"within {self.gap:.1%} of the best possible{among}"

    @property
    def is_bound_one_way(self) -> bool:
        """Say whether placements that cut a layer both ways may move less than the bound."""
        return self.judges_training and self.judged_bytes > 0

    @property
    def max_over_min(self) -> float:
        low = min(self.work_per_part)
        return max(self.work_per_part) / low if low else float("inf")

    @property
    def max_times_k(self) -> int:
        return max(self.work_per_part) * len(self.parts)


@dataclass(frozen=True)
class Plan(Drawn):
    """The placement of a model: every cell owned once, every byte that crosses listed.

    Shards that owners compute alone, messages, replicas and metrics follow from the rest (see values.derived). Only the
    rest is checked when a plan is made; all of it where one is read from a file, and where a program is written.
    """

    settings: Settings
    layers: tuple[PlannedLayer, ...]
    transfers: tuple[Transfer, ...]
    reductions: tuple[Reduction, ...]
    metrics: Metrics
    inputs: tuple[tuple[int, ...], ...] = ()  # the shape of every input of the model, without its rows
    replicas: tuple[Replica, ...] = ()
    parameter_bytes: int = 0  # trained ones of the whole model, each once

    def __post_init__(self) -> None:
        if faults := plan_faults(self):
            raise HyperplaceError("not a plan: " + first_of(faults))

    def __repr__(self) -> str:
        s, m = self.settings, self.metrics
        volume = f"{size(m.judged_bytes)} {'in training' if m.judges_training else 'forward'}"
        count = len(self.messages)
        return (
            f"Plan({s.model}, k={s.k}, {s.grain} by {s.partitioner}, max/avg {m.max_over_avg:.3f}, "
            f"{volume}, {count} message{'s' * (count != 1)} forward)"
        )

    def figure(self) -> "Figure":
        """Return the plan as a matplotlib figure: the owner of every filter or row, and the work of the parts."""
        drawn: Figure = self._drawn("figure")
        return drawn

    @property
    def verdict(self) -> str:
        """Say how good the placement is known to be; what is proven holds for all placements, also without its pins."""
        known = self.metrics.verdict
        return f"{known} without pins" if self.settings.pins and "best possible" in known else known

    @property
    def messages(self) -> "tuple[Transfer | Reduction, ...]":
        """Return every message of the forward pass."""
        return (*self.transfers, *self.reductions)

    @cached_property
    def moved_bytes(self) -> Counter[tuple[str, int, int]]:
        """What one mini-batch of training moves, by ("forward", "backward", "gradients" or "weights", source, target).

        Statistics of batch norms over split rows go forward and backward; the model's outputs, on their way to the
        loss, are not counted.
        """
        return self.moved_in(1)

    def moved_in(self, micro_batches: int) -> Counter[tuple[str, int, int]]:
        """Return the same for a mini-batch that is cut into so many micro-batches.

        Each is split at the same shares, in whole rows: where 9 of 16 rows are one part's, it has 4 of 8. What does not
        grow with the rows goes with each of them, weights and their gradients once.
        """
        moved: Counter[tuple[str, int, int]] = Counter()
        pieces = piece_rows(self.settings.batch, micro_batches)
        fixed = {layer.name: layer.facts.fixed_bytes for layer in self.layers}
        for message in self.messages:
            once = fixed[message.layer] if isinstance(message, Transfer) else 0
            rows = sum(rows_at(message.rows, piece, self.settings.batch) for piece in pieces)
            planned = message.rows[1] - message.rows[0]
            num_bytes = (message.num_bytes - once) * rows // planned + once * len(pieces)
            moved["forward", message.source, message.target] += num_bytes
            moved["backward", message.target, message.source] += num_bytes * message.learns
        for replica in self.replicas:
            for source, target in ((replica.part, replica.owner), (replica.owner, replica.part)):
                moved["forward", source, target] += replica.statistics_bytes * len(pieces)
                moved["backward", source, target] += replica.statistics_bytes * len(pieces)
            moved["gradients", replica.part, replica.peer] += replica.parameter_bytes
            moved["weights", replica.peer, replica.part] += replica.parameter_bytes
        return +moved
