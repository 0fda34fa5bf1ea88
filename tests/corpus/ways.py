"""The ways a habit is run in: plans of every grain, schedules, and numbers of rows."""

import itertools
from dataclasses import dataclass

from habit import BATCH


@dataclass(frozen=True)
class Way:
    """One way to run a habit; `micro_batches` None is the default of compile.

    The plan is for BATCH rows, whatever the sample's own.
    """

    grain: str
    k: int
    partitioner: str
    sample_rows: int
    schedule: str
    micro_batches: int | None
    rows: int

    def __str__(self) -> str:
        pieces = "" if self.micro_batches is None else f"/{self.micro_batches}"
        return f"{self.plan} {self.schedule}{pieces} rows={self.rows}"

    @property
    def plan(self) -> str:
        """The plan in words."""
        sample = "" if self.sample_rows == BATCH else f" sample={self.sample_rows}"
        return f"{self.grain} k={self.k} {self.partitioner}{sample}"


PLANS = (
    ("coarse", 2, "horizontal", BATCH),
    ("coarse", 3, "random", BATCH),
    ("coarse", 2, "random", 1),
    ("fine", 2, "random", BATCH),
    ("fine", 3, "incremental", BATCH),
    ("hybrid", 2, "dataparallel", BATCH),
    ("hybrid", 2, "random", BATCH),
    ("hybrid", 3, "random", 2),
)
BLOCKS = {"coarse": 3, "fine": 2, "hybrid": 2}
ROWS = (BATCH, 4, 9, 1)
RUNS = (
    *(("async", None, rows) for rows in ROWS),
    *(("sync", None, rows) for rows in ROWS),
    *(("sync", 2, rows) for rows in (BATCH, 9)),
)
WAYS = tuple(Way(*plan, *run) for plan, run in itertools.product(PLANS, RUNS))
