"""The public function of this step, and the one place that lists every partitioner."""

from collections.abc import Callable

from hyperplace.errors import UsageError
from hyperplace.steps.partition.baselines import dataparallel, horizontal, incremental, layerwise, random, single
from hyperplace.steps.partition.general import best_of, kahypar, mtkahypar, vcycle
from hyperplace.steps.partition.repair import kept_off
from hyperplace.steps.partition.task import Task
from hyperplace.values.arrays import Ints
from hyperplace.values.capacities import Capacities
from hyperplace.values.hypergraph import Hypergraph
from hyperplace.values.partition import Partition
from hyperplace.values.ranges import Mask

PARTITIONERS: dict[str, Callable[[Task], Ints]] = {
    "kahypar": kahypar,
    "mtkahypar": mtkahypar,
    "vcycle": vcycle,
    "single": single,
    "layerwise": layerwise,
    "horizontal": horizontal,
    "incremental": incremental,
    "dataparallel": dataparallel,
    "server": dataparallel,  # and its kin: the same rows, but other owners of the weights, which a plan has
    "server-roundrobin": dataparallel,
    "server-greedy": dataparallel,
    "random": random,
}


def partition(
    hypergraph: Hypergraph,
    num_parts: int,
    imbalance: float,
    *,
    capacities: Capacities | None = None,
    partitioner: str = "kahypar",
    barred: Mask | None = None,
    seed: int = 0,
    time_limit_s: float = 300.0,
    stop: Callable[[], bool] = lambda: False,
) -> Partition:
    """Split the vertices into parts: few bytes between parts, no part over (1 + imbalance) * average work.

    kahypar, mtkahypar and vcycle meet the imbalance (or the parts' own capacities, where given) or raise BalanceError;
    the baselines are what they are, and may miss it. The same seed gives the same partition, except with mtkahypar.
    Where a vertex is `barred` it is not: what a partitioner puts there is moved to the part with most room.
    Where `stop` begins to return True, a general partitioner is ended, and PartitionerError raised.
    """
    if partitioner not in PARTITIONERS:
        raise UsageError(f"unknown partitioner {partitioner!r}; choose one of {', '.join(PARTITIONERS)}")
    limits = {"seed": seed, "time_limit_s": time_limit_s, "stop": stop, "given": capacities, "barred": barred}
    task = Task(hypergraph, num_parts, imbalance, **limits)  # type: ignore[arg-type]
    find = PARTITIONERS[partitioner] if num_parts > 1 else single
    return Partition(kept_off(task, find(task)), int(num_parts), partitioner)


def balanced(hypergraph: Hypergraph, imbalance: float, capacities: Capacities, barred: Mask | None = None) -> Partition:
    """Return the incremental partition brought within the capacities, at once; BalanceError where that fails."""
    task = Task(hypergraph, capacities.num_parts, imbalance, given=capacities, barred=barred)
    return Partition(best_of(task, [incremental(task)]), task.num_parts, "incremental")
