"""What is impossible, and why: said before anyone searches, or when nobody has found anything."""

import numpy as np

from hyperplace.errors import BalanceError, UsageError
from hyperplace.search.names import BASELINES
from hyperplace.search.problem import Problem
from hyperplace.values.partition import max_over_avg, work_per_part


def refuse_the_impossible(problem: Problem) -> None:
    """Say which piece cannot be placed at all: a filter, or a layer that is never split."""
    runs, settings = problem.runs, problem.settings
    num_filters = int(runs.sizes.sum())
    if settings.k > num_filters:
        kind = BalanceError if settings.k <= num_filters * settings.batch else UsageError  # rows may still be split
        raise kind(f"k={settings.k} is more than the {num_filters} filters; lower --k")
    weights = runs.work * np.where(runs.is_solid, runs.sizes, 1)
    heaviest = int(np.argmax(weights))
    average = runs.total_work / settings.k
    if weights[heaviest] > problem.limits.max():
        what = "layer" if runs.is_solid[heaviest] else "a filter of"
        ratio = weights[heaviest] / average
        advice = "give one part more" if problem.given else f"raise --imbalance to at least {_rounded_up(ratio)}"
        raise BalanceError(
            f"{problem.balance} cannot be met at k={settings.k}: {what} {runs.layers[heaviest]} alone weighs "
            f"{ratio:.2f}x the average part; {advice} or lower --k"
        )


def nothing_found(problem: Problem) -> BalanceError:
    """Return the error that names an imbalance which can be met: one that a method without a limit happens to meet."""
    hypergraph, settings = problem.hypergraph(), problem.settings
    if problem.given:
        return BalanceError(f"no placement within {problem.balance} was found; raise them or lower --k")
    advice = f"no placement within {problem.balance} was found at k={settings.k}; raise --imbalance"
    if settings.k > hypergraph.num_vertices:
        return BalanceError(f"{advice} or --blocks, or lower --k")
    found = [problem.partition(hypergraph, name) for name in (*BASELINES, "random")]
    lightest = min(max_over_avg(work_per_part(hypergraph, one)) for one in found)
    return BalanceError(f"{advice} to {_rounded_up(lightest)} or lower --k")


def _rounded_up(over_average: float) -> str:
    return f"{np.ceil((over_average - 1) * 1000) / 1000:g}"
