"""V-cycles from the baselines: Mt-KaHyPar contracts inside the parts of a given partition, and refines on the way back.

By its DETERMINISTIC_QUALITY preset, which repeats itself and improves baselines more; DEFAULT does neither.
"""

import numpy as np

from hyperplace.steps.partition.baselines import horizontal, incremental, layerwise
from hyperplace.steps.partition.general import partition_with
from hyperplace.steps.partition.repair import repaired
from hyperplace.steps.partition.sandbox import Limits
from hyperplace.steps.partition.task import Task
from hyperplace.values.arrays import Ints


def vcycle(task: Task) -> Ints:
    """Return the best of the baselines, each brought within the limit and improved."""
    baselines = (incremental, layerwise, horizontal) if task.hypergraph.labels else (incremental,)
    starts = np.array([repaired(task, baseline(task)) for baseline in baselines])
    limits = Limits(task.time_limit_s, stop=task.stop)
    return partition_with(task, "vcycle", limits, configurations=("",) * len(starts), starts=starts)
