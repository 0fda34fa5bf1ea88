"""Several searches for one placement, side by side; the best balanced result wins, so no baseline we hold is better.

The general partitioners see blocks of the hypergraph. The local search and the exact program see runs of filters,
share out whole filters, and get a hypergraph cut just where their shares change. All are judged by their hypergraph, in
bytes. Everything runs in threads: the partitioners wait for a process, the local search and HiGHS leave Python's lock.
"""

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from hyperplace.errors import BalanceError, PartitionerError, UsageError
from hyperplace.portfolio_hybrid import search_hybrid
from hyperplace.steps.build import build, build_runs
from hyperplace.steps.partition import PARTITIONERS, partition
from hyperplace.steps.share.arrange import arrange, counted
from hyperplace.values.arrays import Ints
from hyperplace.values.graph import Graph
from hyperplace.values.hypergraph import Hypergraph
from hyperplace.values.partition import Partition, balance_limit, is_feasible, max_over_avg, volume_bytes, work_per_part
from hyperplace.values.plan import Settings
from hyperplace.values.profile import Profile
from hyperplace.values.runs import Runs, Shares, shares_volume

if TYPE_CHECKING:
    from hyperplace.steps.share.exact import ExactSearch

SYMMETRIC = ("auto", "local", "exact")
NAMES = (*SYMMETRIC, *PARTITIONERS)
BASELINES = ("incremental", "layerwise", "horizontal")
ORDER = ("exact", "local", "kahypar", *BASELINES, "mtkahypar")
FINE_BLOCKS = (8, 12, 24)  # a few blocks per layer: a fine grid of more is slower and no better
FEW_PARTS = 4  # up to here the exact program usually ends
MOST_EXACT_COLUMNS = 3000  # beyond this many (run, part) pairs HiGHS does not get anywhere in the time there is
SAFE = 1 - 1e-6  # of the limit, for shares of work that becomes rounded weights

OnProgress = Callable[[str], None]


@dataclass(frozen=True)
class Candidate:
    """A hypergraph with its partition, and what it costs."""

    hypergraph: Hypergraph
    partition: Partition
    volume_bytes: int
    is_feasible: bool


def search(
    graph: Graph,
    profile: Profile,
    settings: Settings,
    *,
    time_limit_s: float = 20.0,
    on_progress: OnProgress = lambda text: None,
) -> tuple[Hypergraph, Partition]:
    """Return the best balanced placement that the settings' partitioner finds, and the hypergraph it belongs to.

    `time_limit_s` is for the exact program and the bound; 0 means to the end. The local search for many parts always
    runs its course, so that the same seed gives the same result. Ctrl-C ends the search with the best so far.
    """
    if settings.partitioner not in NAMES:
        raise UsageError(f"partitioner {settings.partitioner!r} is unknown; choose one of {', '.join(NAMES)}")
    if settings.grain == "hybrid":
        return search_hybrid(graph, profile, settings, time_limit_s=time_limit_s, on_progress=on_progress)
    if settings.partitioner not in SYMMETRIC:
        hypergraph = _blocks(graph, profile, settings, settings.blocks)
        return hypergraph, _general(hypergraph, settings, settings.partitioner)
    if settings.grain != "coarse":
        return _fine(graph, profile, settings, time_limit_s, on_progress)
    best = _Search(graph, profile, settings, time_limit_s, on_progress).run()
    return best.hypergraph, best.partition


def _blocks(graph: Graph, profile: Profile, settings: Settings, blocks: int | None) -> Hypergraph:
    return build(graph, profile, grain=settings.grain, blocks=blocks, fc=settings.fc)


def _general(hypergraph: Hypergraph, settings: Settings, name: str) -> Partition:
    return partition(hypergraph, settings.k, settings.imbalance, partitioner=name, seed=settings.seed)


class _Search:
    """The searches of one coarse placement: two lanes of work, a board with the best result and the best bound."""

    def __init__(
        self, graph: Graph, profile: Profile, settings: Settings, time_limit_s: float, on_progress: OnProgress
    ) -> None:
        self._graph, self._profile, self._settings = graph, profile, settings
        self._deadline = time.monotonic() + (time_limit_s or np.inf)
        self._on_progress = on_progress
        self._runs = build_runs(graph, profile, fc=settings.fc)
        self._limit = (1 + settings.imbalance) * self._runs.total_work / settings.k
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._has_local = threading.Event()
        self._exact_search: "ExactSearch | None" = None  # noqa: UP037 - loaded where used
        self._best: Candidate | None = None
        self._bound = 0.0
        self._known: list[Shares] = []
        self._is_cut_short = False
        self._fault: BaseException | None = None

    def run(self) -> Candidate:
        """Run the lanes until all have ended, one has proven its result, or the user interrupts."""
        _refuse_the_impossible(self._runs, self._settings)
        if self._settings.k == 1:
            return self._everything_on_one_part()
        threads = [threading.Thread(target=self._lane, args=(work,), daemon=True) for work in self._lanes()]
        for thread in threads:
            thread.start()
        try:
            while any(thread.is_alive() for thread in threads) and not self._stop.is_set():
                self._stop.wait(0.05)
        except KeyboardInterrupt:
            self._end(cut_short=True)
            if self._best is None:
                raise
        if self._fault:
            raise self._fault
        return self._result()

    def _lanes(self) -> Sequence[Sequence[Callable[[], None]]]:
        """Return what to do on each core; for few parts the exact program usually needs no help."""
        if self._settings.partitioner == "local":
            return [[self._local]]
        if self._settings.partitioner == "exact":
            return [[self._baselines, self._kahypar, self._exact]]
        if self._settings.k <= FEW_PARTS:
            return [
                [self._kahypar, self._exact],
                [self._baselines, self._mtkahypar, self._pause, self._local, self._price],
            ]
        return [[self._local, self._exact], [self._baselines, self._kahypar, self._mtkahypar, self._price]]

    def _lane(self, work: Sequence[Callable[[], None]]) -> None:
        for task in work:
            if self._stop.is_set():
                return
            try:
                task()
            except (BalanceError, PartitionerError):
                continue  # another search may do better; if none does, the result says so
            except BaseException as fault:  # a worker's edge: whatever it is, it must reach the caller
                self._fault = fault
                self._stop.set()
                return

    def _baselines(self) -> None:
        for name in BASELINES:
            self._try_general(name)

    def _kahypar(self) -> None:
        self._try_general("kahypar")

    def _mtkahypar(self) -> None:
        self._try_general("mtkahypar")

    def _try_general(self, name: str) -> None:
        hypergraph = _blocks(self._graph, self._profile, self._settings, self._settings.blocks)
        if self._settings.k <= hypergraph.num_vertices:
            found = _general(hypergraph, self._settings, name)
            self._offer(_judged(hypergraph, found, self._settings.imbalance))

    def _pause(self) -> None:
        """Leave the exact program the time it mostly needs before the local search is compiled and started."""
        self._stop.wait(5.0)

    def _local(self) -> None:
        from hyperplace.steps.share.local import search as local_search

        seed, k = self._settings.seed, self._settings.k
        # With few parts it only helps the exact program, in the time that has; with many it is the search.
        stop = self._is_over if k <= FEW_PARTS and self._settings.partitioner == "auto" else self._stop.is_set
        try:
            found = local_search(self._runs, k, self._limit * SAFE, seed=seed, stop=stop)
            if found is not None:
                self._offer_shares(found)
        finally:
            self._has_local.set()

    def _exact(self) -> None:
        from hyperplace.steps.share.exact import ExactSearch

        if self._settings.k * len(self._runs.layers) > MOST_EXACT_COLUMNS or self._is_over():
            return
        with self._lock:
            start = min(self._known, key=self._volume_of, default=None)
        exact = ExactSearch(self._runs, self._settings.k, self._limit, seed=self._settings.seed)
        self._exact_search = exact
        found = exact.run(start=start, time_limit_s=max(0.0, self._deadline - time.monotonic()))
        self._raise_bound(found.bound_bytes)
        if found.shares is not None:
            self._offer_shares(found.shares)
        if found.is_complete:
            self._end(cut_short=False)
        else:
            self._is_cut_short = True

    def _price(self) -> None:
        from hyperplace.steps.share.bound import pricing_bound

        while not (self._has_local.wait(0.05) or self._stop.is_set()):
            pass
        with self._lock:
            known = list(self._known)
        if known:
            pricing_bound(
                self._runs,
                self._settings.k,
                self._limit,
                known,
                stop=self._is_over,
                on_bound=self._raise_bound,
            )

    def _is_over(self) -> bool:
        """Say whether the search has ended, or its time is up."""
        if time.monotonic() > self._deadline:
            self._is_cut_short = True
            return True
        return self._stop.is_set()

    def _volume_of(self, shares: Shares) -> float:
        return shares_volume(self._runs, shares)

    def _offer_shares(self, shares: Shares) -> None:
        self._offer(_cut(self._graph, self._profile, self._settings, arrange(self._runs, shares), shares.found_by))

    def _offer(self, candidate: Candidate) -> None:
        """Enter a result on the board."""
        if not candidate.is_feasible:
            return
        owners = _owners(candidate)
        with self._lock:
            self._known.append(counted(self._runs, owners, self._settings.k, candidate.partition.found_by))
            if self._best is None or _rank(candidate) < _rank(self._best):
                self._best = candidate
        self._report()

    def _raise_bound(self, bound_bytes: float) -> None:
        with self._lock:
            self._bound = max(self._bound, bound_bytes)
        self._report()

    def _report(self) -> None:
        best, bound = self._best, self._bound
        words = f"best {best.volume_bytes / 2**20:.1f} MiB ({best.partition.found_by})" if best else "nothing yet"
        self._on_progress(f"{words}, bound {bound / 2**20:.1f} MiB" if bound else words)

    def _end(self, *, cut_short: bool) -> None:
        self._is_cut_short = cut_short
        self._stop.set()
        if self._exact_search and cut_short:
            self._exact_search.cancel()

    def _result(self) -> Candidate:
        with self._lock:
            best, bound = self._best, int(np.floor(self._bound))
        if best is None:
            raise BalanceError(
                f"no placement within imbalance {self._settings.imbalance:g} was found at k={self._settings.k}; "
                f"raise --imbalance to {self._smallest_imbalance():g} or lower --k"
            )
        # A bound within the solver's tolerance above a real placement is that placement's volume; one further above
        # is no bound at all.
        bound = min(bound, best.volume_bytes) if bound <= best.volume_bytes * (1 + 1e-4) else 0
        is_proven = bound >= best.volume_bytes * (1 - 1e-3)
        found = replace(best.partition, bound_bytes=bound or None, is_cut_short=self._is_cut_short and not is_proven)
        return replace(best, partition=found)

    def _smallest_imbalance(self) -> float:
        """Return the smallest imbalance that one of the methods that know no limit happens to meet, rounded up."""
        hypergraph = _blocks(self._graph, self._profile, self._settings, self._settings.blocks)
        found = [_general(hypergraph, self._settings, name) for name in (*BASELINES, "random")]
        lightest = min(max_over_avg(work_per_part(hypergraph, one)) for one in found)
        return float(np.ceil((lightest - 1) * 1000) / 1000)

    def _everything_on_one_part(self) -> Candidate:
        hypergraph = _blocks(self._graph, self._profile, self._settings, self._settings.blocks)
        alone = Partition(np.zeros(hypergraph.num_vertices, np.int64), 1, "single", bound_bytes=0)
        return _judged(hypergraph, alone, self._settings.imbalance)


def _rank(candidate: Candidate) -> tuple[int, int]:
    """Order results by volume, and equal ones by who found them, so that it does not matter who was first."""
    return candidate.volume_bytes, ORDER.index(candidate.partition.found_by)


def _judged(hypergraph: Hypergraph, found: Partition, imbalance: float) -> Candidate:
    feasible = is_feasible(work_per_part(hypergraph, found), imbalance)
    return Candidate(hypergraph, found, volume_bytes(hypergraph, found), feasible)


def _cut(graph: Graph, profile: Profile, settings: Settings, owners: dict[str, Ints], found_by: str) -> Candidate:
    """Return a known placement on blocks cut also where owners change; kernels stay with their filter's owner."""
    cuts = {layer: {int(edge) + 1 for edge in np.flatnonzero(np.diff(owner))} for layer, owner in owners.items()}
    hypergraph = build(graph, profile, grain=settings.grain, blocks=settings.blocks, fc=settings.fc, cuts=cuts)
    labels = hypergraph.labels
    assert labels is not None
    names = [labels.layers[number] for number in labels.layer_of]
    part_of = [owners[name][start] for name, start in zip(names, labels.filter_start, strict=True)]
    return _judged(hypergraph, Partition(np.array(part_of), settings.k, found_by), settings.imbalance)


def _owners(candidate: Candidate) -> dict[str, Ints]:
    """Return the owner of every filter of every layer of a coarse candidate."""
    labels = candidate.hypergraph.labels
    assert labels is not None
    sizes = labels.filter_stop - labels.filter_start
    owner, layer_of = np.repeat(candidate.partition.part_of, sizes), np.repeat(labels.layer_of, sizes)
    bounds = np.searchsorted(layer_of, np.arange(len(labels.layers) + 1))
    return {name: owner[bounds[i] : bounds[i + 1]] for i, name in enumerate(labels.layers)}


def _fine(
    graph: Graph, profile: Profile, settings: Settings, time_limit_s: float, on_progress: OnProgress
) -> tuple[Hypergraph, Partition]:
    """Return the best of the coarse placement, which is a fine one too, and of polished grids of a few blocks."""
    from hyperplace.steps.partition.polish import polish

    coarse = _Search(graph, profile, replace(settings, grain="coarse"), time_limit_s, on_progress).run()
    few = replace(settings, blocks=1)  # the coarse placement needs no finer grid than its own cuts
    found = [_cut(graph, profile, few, _owners(coarse), coarse.partition.found_by)]
    is_cut_short = coarse.partition.is_cut_short
    try:
        for blocks in FINE_BLOCKS if settings.k > 1 else ():
            grid = _blocks(graph, profile, settings, min(blocks, settings.blocks or blocks))
            with suppress(BalanceError, PartitionerError):  # too coarse a grid, or the partitioner fails on it
                start = _general(grid, settings, "kahypar")
                polished = polish(grid, start, settings.imbalance, seed=settings.seed)
                found.append(_judged(grid, polished, settings.imbalance))
            on_progress(f"best {min(c.volume_bytes for c in found if c.is_feasible) / 2**20:.1f} MiB")
    except KeyboardInterrupt:
        is_cut_short = True
    best = min((c for c in found if c.is_feasible), key=lambda c: c.volume_bytes)
    return best.hypergraph, replace(best.partition, is_cut_short=is_cut_short, bound_bytes=None)


def _refuse_the_impossible(runs: Runs, settings: Settings) -> None:
    """Say which piece cannot be placed at all: a filter, or a layer that is never split."""
    if settings.k > runs.sizes.sum():
        raise UsageError(f"k={settings.k} is more than the {runs.sizes.sum()} filters; lower --k")
    weights = runs.work * np.where(runs.is_solid, runs.sizes, 1)
    heaviest = int(np.argmax(weights))
    average = runs.total_work / settings.k
    if weights[heaviest] > balance_limit(1, 1, settings.imbalance) * average:
        what = "layer" if runs.is_solid[heaviest] else "a filter of"
        ratio = weights[heaviest] / average
        raise BalanceError(
            f"imbalance {settings.imbalance:g} cannot be met at k={settings.k}: {what} {runs.layers[heaviest]} alone "
            f"weighs {ratio:.2f}x the average part; raise --imbalance to at least "
            f"{np.ceil((ratio - 1) * 1000) / 1000:g} or lower --k"
        )
