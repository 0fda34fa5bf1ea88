"""Several ways of placing one model, side by side: what the comparison tables are made of.

A row is one method at one k. Methods are named as in the thesis's tables. A method that knows no limit (a baseline)
has no imbalance and is neither feasible nor not; whether it happens to meet a limit is `meets`.
"""

from dataclasses import dataclass

from hyperplace.errors import HyperplaceError
from hyperplace.values.drawn import Drawn
from hyperplace.values.partition import balance_limit
from hyperplace.values.plan import Plan, Settings

FIGURES = ("max_work", "min_work", "avg_work", "volume_bytes", "max_part_bytes", "training_volume_bytes")


@dataclass(frozen=True)
class Method:
    """A row of the comparison: a partitioner on a grain; `limited` where it obeys an imbalance."""

    name: str
    grain: str
    partitioner: str
    limited: bool = False


METHODS = (
    Method("layer-wise", "coarse", "layerwise"),
    Method("filter-wise horizontal", "coarse", "horizontal"),
    Method("filter-wise incremental", "coarse", "incremental"),
    Method("channel-wise incremental", "fine", "incremental"),
    Method("coarse", "coarse", "kahypar", limited=True),
    Method("fine", "fine", "kahypar", limited=True),
    Method("auto", "coarse", "auto", limited=True),
    Method("auto fine", "fine", "auto", limited=True),
    Method("hybrid", "hybrid", "auto", limited=True),
    Method("data parallelism", "hybrid", "dataparallel"),
)
METHOD_NAMES = tuple(method.name for method in METHODS)


@dataclass(frozen=True)
class ComparisonRow:
    """One method at one k; work in units of `work_unit`, bytes per mini-batch."""

    model: str
    method: str
    grain: str
    partitioner: str
    imbalance: float | None  # None: the method knows no limit
    k: int
    max_work: int
    min_work: int
    avg_work: float
    volume_bytes: int  # forward
    max_part_bytes: int  # the most any part sends and receives, forward
    training_volume_bytes: int
    data_parallel_bytes: int
    feasible: bool | None  # with respect to the imbalance
    seconds: float = 0.0  # of the partitioner
    note: str = ""
    work_unit: str = ""
    found_by: str = ""  # who won, where several searched
    bound_bytes: int | None = None  # see judged_bytes, and Metrics
    has_figures: bool = True  # False: the method failed, the note says why, and its figures are all 0

    def __post_init__(self) -> None:
        faults = []
        if (self.imbalance is None) != (self.feasible is None):
            faults.append(f"imbalance is {self.imbalance}, but feasible is {self.feasible}")
        if self.k < 1:
            faults.append(f"k is {self.k}")
        if not 0 <= self.min_work <= self.max_work:
            faults.append(f"its work goes from {self.min_work} to {self.max_work}")
        if faults:
            raise HyperplaceError(f"not a row for {self.method}: " + "; ".join(faults))

    @classmethod
    def of(cls, method: str, plan: Plan, imbalance: float | None, seconds: float) -> "ComparisonRow":
        """Return a plan as the row of a method; `imbalance` is None where the method knows no limit."""
        settings, metrics = plan.settings, plan.metrics
        return cls(
            model=settings.model,
            method=method,
            grain=settings.grain,
            partitioner=settings.partitioner,
            imbalance=imbalance,
            k=settings.k,
            max_work=max(metrics.work_per_part),
            min_work=min(metrics.work_per_part),
            avg_work=metrics.total_work / settings.k,
            volume_bytes=metrics.volume_bytes,
            max_part_bytes=max(part.sent_bytes + part.received_bytes for part in metrics.parts),
            training_volume_bytes=metrics.training_volume_bytes,
            data_parallel_bytes=metrics.data_parallel_bytes,
            feasible=None if imbalance is None else metrics.feasible,
            seconds=seconds,
            work_unit=metrics.work_unit,
            found_by=metrics.found_by,
            bound_bytes=metrics.bound_bytes,
        )

    @classmethod
    def failed(
        cls, method: str, settings: Settings, imbalance: float | None, parameter_bytes: int, note: str
    ) -> "ComparisonRow":
        """Return the row of a method that found no partition, with the reason."""
        return cls(
            model=settings.model,
            method=method,
            grain=settings.grain,
            partitioner=settings.partitioner,
            imbalance=imbalance,
            k=settings.k,
            max_work=0,
            min_work=0,
            avg_work=0.0,
            volume_bytes=0,
            max_part_bytes=0,
            training_volume_bytes=0,
            data_parallel_bytes=2 * (settings.k - 1) * parameter_bytes,
            feasible=None if imbalance is None else False,
            note=note,
            has_figures=False,
        )

    @property
    def judged_bytes(self) -> int:
        """Return what the method minimised and the bound is about: the hybrid grain's is the volume of training."""
        return self.training_volume_bytes if self.grain == "hybrid" else self.volume_bytes

    @property
    def max_over_min(self) -> float:
        return self.max_work / self.min_work if self.min_work else float("inf")

    @property
    def max_over_avg(self) -> float:
        return self.max_work / self.avg_work if self.avg_work else 1.0

    @property
    def max_times_k(self) -> int:
        return self.max_work * self.k

    @property
    def training_over_data_parallel(self) -> float:
        """Return the training volume as a multiple of what data parallelism moves: its weights and gradients."""
        return self.training_volume_bytes / self.data_parallel_bytes if self.data_parallel_bytes else float("nan")

    def meets(self, imbalance: float) -> bool:
        """Return whether there is a result whose heaviest part stays within this limit."""
        return self.has_figures and self.max_work <= balance_limit(round(self.avg_work * self.k), self.k, imbalance)


@dataclass(frozen=True, repr=False)
class Comparison(Drawn):
    """All rows of one model, made with the same costs."""

    model: str
    batch: int
    costs: str
    blocks: int | None
    fc: str
    parameter_bytes: int
    rows: tuple[ComparisonRow, ...]
    row_blocks: int = 8
    batch_norm: str = "exact"

    def __post_init__(self) -> None:
        seen: set[tuple[object, ...]] = set()
        for row in self.rows:
            where = f"{row.method} by {row.partitioner} at k={row.k}, imbalance {row.imbalance}"
            if row.model != self.model:
                raise HyperplaceError(f"not a comparison of {self.model}: {where} is of {row.model}")
            key = (row.method, row.partitioner, row.k, row.imbalance)
            if key in seen:
                raise HyperplaceError(f"not a comparison: {where} is there twice")
            seen.add(key)

    def __repr__(self) -> str:
        ks = ", ".join(str(k) for k in sorted({row.k for row in self.rows}))
        return f"Comparison({self.model}, {len(self.rows)} rows, k = {ks})"
