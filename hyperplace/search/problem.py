"""What all searches of one placement are given: the graph, its costs, the settings, and the runs made of them."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from hyperplace.steps.build import build, build_hybrid_runs, build_runs
from hyperplace.steps.partition import partition
from hyperplace.values.arrays import Floats
from hyperplace.values.capacities import Capacities
from hyperplace.values.graph import Graph
from hyperplace.values.hypergraph import Hypergraph
from hyperplace.values.layout import Layout
from hyperplace.values.modes import HybridRuns
from hyperplace.values.partition import Partition
from hyperplace.values.pins import Places, barred
from hyperplace.values.plan import Settings
from hyperplace.values.profile import Profile
from hyperplace.values.ranges import Mask
from hyperplace.values.runs import Runs

SAFE = 1 - 1e-6
LONGEST_S = 300.0  # for a partitioner that sees only the hypergraph: then it hangs


@dataclass(frozen=True)
class Objective:
    """What is to be small: a number for every layout, in a unit.

    The searches themselves move few bytes; of all that they find the objective chooses.
    """

    unit: str
    judge: Callable[[Layout], float]


@dataclass(frozen=True)
class Problem:
    """One placement to be found."""

    graph: Graph
    profile: Profile
    settings: Settings
    given: Capacities | None = None  # instead of the same for all parts, by the imbalance
    places: Places = field(default_factory=dict)  # of layers that may not be on all parts
    objective: Objective | None = None  # None: the bytes that the nets of the grain's hypergraph cost

    @cached_property
    def capacities(self) -> Capacities:
        return self.given or Capacities.even(self.settings.k, self.settings.imbalance)

    @cached_property
    def runs(self) -> Runs:
        runs = build_runs(self.graph, self.profile, fc=self.settings.fc)
        if not self.places:
            return runs
        return replace(runs, barred=barred(runs.layers, self.settings.k, self.places).astype(np.int64))

    @cached_property
    def hybrid_runs(self) -> HybridRuns:
        return build_hybrid_runs(self.graph, self.profile, runs=self.runs)

    @cached_property
    def blocks(self) -> Hypergraph:
        """The hypergraph of blocks as they are, which all partitioners see."""
        return self.hypergraph()

    @property
    def balance(self) -> str:
        """What is asked of the parts' work, in words."""
        return repr(self.given) if self.given else f"imbalance {self.settings.imbalance:g}"

    @property
    def limits(self) -> Floats:
        """The most work of every part, in the unit of the runs."""
        return self.capacities.of(self.runs.total_work)

    @property
    def safe_limits(self) -> Floats:
        """The limits for shares of work, which rounding to weights may add to; never too little for all work."""
        return np.maximum(self.limits * SAFE, self.capacities.tightest.of(self.runs.total_work))

    def hypergraph(self, layout: Layout | None = None) -> Hypergraph:
        """Return the hypergraph of blocks, cut also where a layout's owners change."""
        words = self.settings
        options = {"blocks": words.blocks, "fc": words.fc, "row_blocks": words.row_blocks, "layout": layout}
        return build(self.graph, self.profile, grain=words.grain, **options)  # type: ignore[arg-type]

    def partition(
        self,
        hypergraph: Hypergraph,
        name: str,
        *,
        more_seed: int = 0,
        time_limit_s: float = LONGEST_S,
        stop: Callable[[], bool] = lambda: False,
    ) -> Partition:
        """Return the partition that one of the partitioners that see only the hypergraph finds."""
        return partition(
            hypergraph,
            self.settings.k,
            self.settings.imbalance,
            capacities=self.capacities,
            barred=self.barred(hypergraph),
            partitioner=name,
            seed=self.settings.seed + more_seed,
            time_limit_s=time_limit_s,
            stop=stop,
        )

    def barred(self, hypergraph: Hypergraph) -> Mask | None:
        """Return [vertex, part]: where every vertex must not be; None where all may be everywhere."""
        if not self.places:
            return None
        labels = hypergraph.labels
        assert labels is not None, "built from a model"
        return barred(labels.layers, self.settings.k, self.places)[labels.layer_of]

    def with_grain(self, grain: str) -> "Problem":
        return self._with(replace(self.settings, grain=grain))

    def with_blocks(self, blocks: int | None, row_blocks: int = 1) -> "Problem":
        return self._with(replace(self.settings, blocks=blocks, row_blocks=row_blocks))

    def _with(self, settings: Settings) -> "Problem":
        """Return the problem with other blocks or another grain, of which the runs know nothing."""
        other = replace(self, settings=settings)
        vars(other).update({name: vars(self)[name] for name in ("runs", "hybrid_runs") if name in vars(self)})
        return other
