"""The general partitioners, and what they share: ask in the sandbox, judge by the true weights, repair, take the best.

The libraries themselves are imported by child.py alone, in its own process.
"""

import math
import os
from collections.abc import Iterable

import numpy as np

from hyperplace.errors import BalanceError
from hyperplace.steps.partition.baselines import horizontal, incremental, layerwise
from hyperplace.steps.partition.repair import packed, repaired
from hyperplace.steps.partition.sandbox import HERE, Limits, Question, ask
from hyperplace.steps.partition.scale import scaled
from hyperplace.steps.partition.task import Task
from hyperplace.values.arrays import Ints
from hyperplace.values.partition import Partition, max_over_avg, volume_bytes, work_per_part

# How far to contract before the first partition: at most so many vertices per part, and per half of a bisection.
# Far finds the lowest volume where the limit is loose; early still finds a balance where it is tight.
FAR = "c-t=5\ni-c-t=10\n"
EARLY = "c-t=160\ni-c-t=150\n"
RUNS = (EARLY, FAR, EARLY, FAR)

# Size times parts up to which there are four runs, two, and else one. A rule of thumb: coarse VGG16 stays within
# 5 s, and the fine grain, where 50,000 vertices count for more than 100,000 pins, within 25 s.
FOUR_RUNS = 2_000_000
TWO_RUNS = 10_000_000
THREAD_BYTES = 2**28  # address space of one more thread: its stack and its malloc arena
NUM_SEEDS = 2**31  # both libraries take the seed as an int32
NO_STARTS = np.zeros((0, 0), np.int64)


def kahypar(task: Task) -> Ints:
    """Return the best of a few runs: direct k-way, connectivity objective, as the kahypar.ini beside this file says.

    How many depends on the size alone, so the same seed gives the same result.
    """
    size = (task.hypergraph.num_pins + 10 * task.hypergraph.num_vertices) * task.num_parts
    runs = RUNS[: 4 if size <= FOUR_RUNS else 2 if size <= TWO_RUNS else 1]
    ini = (HERE / "kahypar.ini").read_text(encoding="utf-8")
    configurations = tuple(ini + coarsening for coarsening in runs)
    return partition_with(task, "kahypar", Limits(task.time_limit_s, stop=task.stop), configurations=configurations)


def mtkahypar(task: Task) -> Ints:
    """Return one run of Mt-KaHyPar's DEFAULT preset on all cores.

    A seed does not make it repeatable, not even on one thread: two calls with the same arguments may differ.
    """
    num_threads = os.cpu_count() or 1
    limits = Limits(task.time_limit_s, 8 * 2**30 + num_threads * THREAD_BYTES, task.stop)
    return partition_with(task, "mtkahypar", limits, num_threads=num_threads)


def vcycle(task: Task) -> Ints:
    """Return the best of the baselines, each brought within the limit and improved by V-cycles.

    Mt-KaHyPar contracts inside the parts of a given partition, and refines on the way back; by its
    DETERMINISTIC_QUALITY preset, which repeats itself and improves baselines more. DEFAULT does neither.
    """
    baselines = (incremental, layerwise, horizontal) if task.hypergraph.labels else (incremental,)
    starts = np.array([repaired(task, baseline(task)) for baseline in baselines])
    limits = Limits(task.time_limit_s, stop=task.stop)
    return partition_with(task, "vcycle", limits, configurations=("",) * len(starts), starts=starts)


def partition_with(
    task: Task,
    solver: str,
    limits: Limits,
    *,
    configurations: tuple[str, ...] = ("",),
    starts: Ints = NO_STARTS,
    num_threads: int = 1,
) -> Ints:
    """Run once per configuration; return the least volume that meets the imbalance, or raise BalanceError.

    `starts` has a row per configuration, where the solver begins with a partition.
    """
    _check_heaviest_fits(task)
    clean = task.with_useful_nets()
    if not clean.hypergraph.num_nets:  # nothing to cut, and KaHyPar segfaults
        return best_of(clean, starts)
    numbers, num_runs = scaled(clean), len(configurations)
    question = Question(
        solver=solver,
        num_parts=task.num_parts,
        offsets=clean.hypergraph.offsets,
        pins=clean.hypergraph.pins,
        weights=numbers.weights,
        costs=numbers.costs,
        epsilon=numbers.epsilon,
        limits=numbers.limits,
        seeds=tuple((task.seed * num_runs + run) % NUM_SEEDS for run in range(num_runs)),
        configurations=configurations,
        starts=starts,
        num_threads=num_threads,
    )
    return best_of(clean, ask(question, limits))


def _check_heaviest_fits(task: Task) -> None:
    """Name the vertex that no part can hold, before anyone searches for one."""
    hypergraph, labels = task.hypergraph, task.hypergraph.labels
    heaviest = int(hypergraph.weights.argmax())
    if hypergraph.weights[heaviest] <= task.limits.max():
        return
    if not task.capacities.is_even:
        raise BalanceError(f"{task.capacities} cannot be met: vertex {heaviest} alone is more than any part may hold")
    times = int(hypergraph.weights[heaviest]) * task.num_parts / hypergraph.total_weight
    name, split = f"vertex {heaviest}", ""
    if labels:
        kind = "kernel" if labels.channel_start[heaviest] >= 0 else "filter block"
        name = f"{kind} {labels.vertex(heaviest)}"
        if labels.filter_stop[heaviest] - labels.filter_start[heaviest] > 1:
            split = ", raise --blocks (if its layer can be split)"
    raise BalanceError(
        f"imbalance {task.imbalance:g} cannot be met at k={task.num_parts}: {name} alone weighs {times:.2g}x the "
        f"average part; raise --imbalance to at least {_rounded_up(times - 1)}{split} or lower --k"
    )


def best_of(task: Task, answers: Iterable[Ints]) -> Ints:
    """Return the feasible answer of least volume, repairing those over the limit; pack anew only if all fail."""
    candidates = [repaired(task, answer) for answer in answers]
    if not any(_is_feasible(task, part_of) for part_of in candidates):
        candidates.append(repaired(task, packed(task)))
    feasible = [part_of for part_of in candidates if _is_feasible(task, part_of)]
    if feasible:
        return min(feasible, key=lambda part_of: _volume(task, part_of))
    if not task.capacities.is_even:
        raise BalanceError(
            f"{task.capacities} were not met at k={task.num_parts}; raise them, raise --blocks or lower --k"
        )
    best = min(max_over_avg(_work(task, part_of)) for part_of in candidates) - 1
    raise BalanceError(
        f"imbalance {task.imbalance:g} was not met at k={task.num_parts}: the most even partition found has "
        f"{best:.3g}; raise --imbalance to at least {_rounded_up(best)}, raise --blocks or lower --k"
    )


def _work(task: Task, part_of: Ints) -> Ints:
    return work_per_part(task.hypergraph, Partition(part_of, task.num_parts))


def _is_feasible(task: Task, part_of: Ints) -> bool:
    return task.capacities.admit(_work(task, part_of))


def _volume(task: Task, part_of: Ints) -> int:
    return volume_bytes(task.hypergraph, Partition(part_of, task.num_parts))


def _rounded_up(imbalance: float) -> float:
    return math.ceil(imbalance * 1000) / 1000
