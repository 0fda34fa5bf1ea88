"""The search for a hybrid placement: a local search, and for few parts an exact program, over how each run is split.

Whatever they find is laid out on cells, cut just where owners change, and judged by its hypergraph, in bytes of
training. Data parallelism, layer-wise and incremental filling and the coarse placement are candidates too, so that
none of them is better.
"""

from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np

from hyperplace.errors import BalanceError, PartitionerError
from hyperplace.portfolio.board import OnProgress
from hyperplace.steps.build import build, build_hybrid_runs
from hyperplace.steps.partition import PARTITIONERS, partition
from hyperplace.steps.share.arrange import counted
from hyperplace.steps.share.hybrid_arrange import arrange_modes
from hyperplace.steps.share.hybrid_starts import by_filters, data_parallel, pipeline
from hyperplace.values.arrays import Ints
from hyperplace.values.graph import Graph
from hyperplace.values.hypergraph import Hypergraph
from hyperplace.values.modes import HybridRuns, ModeShares, modes_work
from hyperplace.values.partition import Partition, balance_limit, is_feasible, volume_bytes, work_per_part
from hyperplace.values.plan import Settings
from hyperplace.values.profile import Profile
from hyperplace.values.runs import Shares

COARSE = ("layerwise", "incremental", "kahypar")  # coarse placements to begin with, where none is given
MOST_EXACT_PARTS, MOST_EXACT_SHARES = 4, 300  # beyond, in (run, part) pairs, HiGHS proves little in any short time
SAFE = 1 - 1e-6  # of the limit, for shares of work that becomes rounded weights

Found = tuple[Hypergraph, Partition]


def search_hybrid(
    graph: Graph,
    profile: Profile,
    settings: Settings,
    *,
    time_limit_s: float = 20.0,
    on_progress: OnProgress = lambda text: None,
    coarse: Found | None = None,
) -> Found:
    """Return the best balanced hybrid placement that the settings' partitioner finds, and its hypergraph.

    `coarse` is a coarse placement of the same model, for the search to begin with and not to fall behind.
    `time_limit_s` is for the exact program, 0 means to the end; the local search always runs its course, so that
    the same seed gives the same result. Ctrl-C ends the search with the best so far.
    """
    if settings.partitioner == "dataparallel":
        settings = replace(settings, blocks=1, row_blocks=settings.k)  # it needs just as many blocks of rows
    if settings.partitioner in PARTITIONERS:
        hypergraph = _blocks(graph, profile, settings)
        return hypergraph, _general(hypergraph, settings, settings.partitioner)
    return _Search(graph, profile, settings, time_limit_s, on_progress).run(coarse)


def _blocks(graph: Graph, profile: Profile, settings: Settings) -> Hypergraph:
    rows = settings.row_blocks if settings.grain == "hybrid" else 1
    return build(graph, profile, grain=settings.grain, blocks=settings.blocks, fc=settings.fc, row_blocks=rows)


def _general(hypergraph: Hypergraph, settings: Settings, name: str) -> Partition:
    return partition(hypergraph, settings.k, settings.imbalance, partitioner=name, seed=settings.seed)


@dataclass(frozen=True)
class _Candidate:
    """A placement on its hypergraph, and what it costs."""

    hypergraph: Hypergraph
    partition: Partition
    volume_bytes: int
    is_feasible: bool


def _laid_out(graph: Graph, profile: Profile, settings: Settings, hybrid: HybridRuns, shares: ModeShares) -> _Candidate:
    """Return shares as a partition of a hypergraph cut only where owners change."""
    cells = arrange_modes(hybrid, shares)
    cuts = {layer: set((_changes(owner) + 1).tolist()) for layer, owner in cells.items()}
    row_cuts = {int(row) + 1 for owner in cells.values() for row in _changes(owner.T)}
    options = {"blocks": 1, "fc": settings.fc, "cuts": cuts, "row_blocks": 1, "row_cuts": row_cuts}
    hypergraph = build(graph, profile, grain="hybrid", **options)  # type: ignore[arg-type]
    labels = hypergraph.labels
    assert labels is not None
    rows = np.maximum(labels.row_start, 0)
    names = [labels.layers[number] for number in labels.layer_of]
    part_of = [cells[name][f, row] for name, f, row in zip(names, labels.filter_start, rows, strict=True)]
    found = Partition(np.array(part_of), settings.k, shares.found_by)
    feasible = is_feasible(work_per_part(hypergraph, found), settings.imbalance)
    return _Candidate(hypergraph, found, volume_bytes(hypergraph, found), feasible)


def _changes(owner: Ints) -> Ints:
    """Return the lines after which a line differs."""
    return np.flatnonzero((owner[1:] != owner[:-1]).any(axis=1))


class _Search:
    """The searches of one hybrid placement, one after the other, and the best result so far."""

    def __init__(
        self, graph: Graph, profile: Profile, settings: Settings, time_limit_s: float, on_progress: OnProgress
    ) -> None:
        self._graph, self._profile, self._settings = graph, profile, settings
        self._time_limit_s, self._on_progress = time_limit_s or np.inf, on_progress
        self._hybrid = build_hybrid_runs(graph, profile, fc=settings.fc)
        self._limit = balance_limit(1, settings.k, settings.imbalance) * self._hybrid.runs.total_work
        self._found: list[_Candidate] = []
        self._bound = 0.0
        self._is_cut_short = False

    def run(self, coarse: Found | None) -> Found:
        """Try the starts, then improve on them."""
        starts = self._starts(coarse)
        for shares in starts:
            self._offer(shares)
        try:
            if self._settings.k > 1:
                self._improve(starts)
        except KeyboardInterrupt:
            self._is_cut_short = True
        return self._result()

    def _starts(self, coarse: Found | None) -> list[ModeShares]:
        """Return a pipeline of stages, the coarse placements and data parallelism."""
        k, limit = self._settings.k, self._limit * SAFE
        starts = [pipeline(self._hybrid, k, limit)]
        if coarse:
            starts.append(by_filters(self._shares_of(coarse)))
        else:
            settings = replace(self._settings, grain="coarse")
            blocks = _blocks(self._graph, self._profile, settings)
            for name in COARSE if k <= blocks.num_vertices else ():
                with suppress(BalanceError, PartitionerError):  # others may do better
                    starts.append(by_filters(self._shares_of((blocks, _general(blocks, settings, name)))))
        return [*starts, data_parallel(self._hybrid, k)]

    def _shares_of(self, coarse: Found) -> Shares:
        """Return a coarse placement as shares of filters."""
        hypergraph, found = coarse
        labels = hypergraph.labels
        assert labels is not None
        sizes = labels.filter_stop - labels.filter_start
        owner, layer_of = np.repeat(found.part_of, sizes), np.repeat(labels.layer_of, sizes)
        owners = {name: owner[layer_of == number] for number, name in enumerate(labels.layers)}
        return counted(self._hybrid.runs, owners, found.num_parts, found.found_by)

    def _improve(self, starts: list[ModeShares]) -> None:
        if local := self._local(starts, self._settings.seed):
            self._offer(local)
        exact = self._exact(local) if self._asks_for_exact() else None
        if exact:
            self._offer(exact)
            if again := self._local([exact], self._settings.seed + 1):
                self._offer(again)

    def _asks_for_exact(self) -> bool:
        size = self._settings.k * len(self._hybrid.copy_bytes)
        is_small = self._settings.k <= MOST_EXACT_PARTS and size <= MOST_EXACT_SHARES
        return self._settings.partitioner == "exact" or (self._settings.partitioner == "auto" and is_small)

    def _local(self, starts: list[ModeShares], seed: int) -> ModeShares | None:
        from hyperplace.steps.share.hybrid_local import search_modes

        return search_modes(self._hybrid, self._limit * SAFE, starts, seed=seed, on_best=self._report)

    def _exact(self, start: ModeShares | None) -> ModeShares | None:
        from hyperplace.steps.share.hybrid_exact import HybridSearch

        program = HybridSearch(self._hybrid, self._settings.k, self._limit, seed=self._settings.seed)
        found = program.run(start=start, time_limit_s=self._time_limit_s)
        self._bound = found.bound_bytes
        self._is_cut_short = not found.is_complete
        return found.shares

    def _offer(self, shares: ModeShares) -> None:
        if modes_work(self._hybrid, shares).max() <= self._limit * (1 + 1e-6):
            self._found.append(_laid_out(self._graph, self._profile, self._settings, self._hybrid, shares))

    def _report(self, num_bytes: float) -> None:
        bound = f", bound {self._bound / 2**20:.1f} MiB" if self._bound else ""
        self._on_progress(f"best {num_bytes / 2**20:.1f} MiB in training{bound}")

    def _result(self) -> Found:
        balanced = [candidate for candidate in self._found if candidate.is_feasible]
        if not balanced:
            raise BalanceError(
                f"no hybrid placement within imbalance {self._settings.imbalance:g} was found at k={self._settings.k}; "
                "raise --imbalance or lower --k"
            )
        best = min(balanced, key=lambda candidate: candidate.volume_bytes)
        bound = min(int(self._bound), best.volume_bytes) if self._settings.k > 1 else 0
        has_bound = bound > 0 or best.volume_bytes == 0
        is_proven = bound >= best.volume_bytes * (1 - 1e-3)
        found = replace(
            best.partition,
            bound_bytes=bound if has_bound else None,
            is_cut_short=self._is_cut_short and not is_proven,
        )
        return best.hypergraph, found
