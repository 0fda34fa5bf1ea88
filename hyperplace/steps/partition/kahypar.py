"""KaHyPar: direct k-way, connectivity objective, configured by the kahypar.ini beside this file."""

from hyperplace.steps.partition.general import partition_with
from hyperplace.steps.partition.sandbox import HERE, Limits
from hyperplace.steps.partition.task import Task
from hyperplace.values.arrays import Ints

# How far to contract before the first partition: at most so many vertices per part, and per half of a bisection.
# Far finds the lowest volume where the limit is loose; early still finds a balance where it is tight.
FAR = "c-t=5\ni-c-t=10\n"
EARLY = "c-t=160\ni-c-t=150\n"
RUNS = (EARLY, FAR, EARLY, FAR)

# Size times parts up to which there are four runs, two, and else one. A rule of thumb: coarse VGG16 stays within
# 5 s, and the fine grain, where 50,000 vertices count for more than 100,000 pins, within 25 s.
FOUR_RUNS = 2_000_000
TWO_RUNS = 10_000_000


def kahypar(task: Task) -> Ints:
    """Return the best of a few runs. How many depends on the size alone, so the same seed gives the same result."""
    size = (task.hypergraph.num_pins + 10 * task.hypergraph.num_vertices) * task.num_parts
    runs = RUNS[: 4 if size <= FOUR_RUNS else 2 if size <= TWO_RUNS else 1]
    ini = (HERE / "kahypar.ini").read_text(encoding="utf-8")
    configurations = tuple(ini + coarsening for coarsening in runs)
    return partition_with(task, "kahypar", Limits(task.time_limit_s, stop=task.stop), configurations=configurations)
