"""Mt-KaHyPar: parallel, its DEFAULT preset, connectivity objective.

A seed does not make it repeatable, not even on one thread: two calls with the same arguments may differ.
"""

import os

from hyperplace.steps.partition.general import partition_with
from hyperplace.steps.partition.sandbox import Limits
from hyperplace.steps.partition.task import Task
from hyperplace.values.arrays import Ints

THREAD_BYTES = 2**28  # address space of one more thread: its stack and its malloc arena


def mtkahypar(task: Task) -> Ints:
    """Return one run on all cores."""
    num_threads = os.cpu_count() or 1
    limits = Limits(task.time_limit_s, 8 * 2**30 + num_threads * THREAD_BYTES, task.stop)
    return partition_with(task, "mtkahypar", limits, num_threads=num_threads)
