"""Where the hybrid local search begins: data parallelism, a pipeline of data-parallel stages, shares by filters."""

import numpy as np

from hyperplace.values.arrays import Floats, Ints
from hyperplace.values.modes import HybridRuns, ModeShares
from hyperplace.values.runs import Shares

OVERLOADS = (1.0, 1.1, 1.25, 1.5, 2.0, np.inf)  # of the limit, tried in turn: the search evens out what is too much


def by_filters(shares: Shares) -> ModeShares:
    """Return shares of filters as such."""
    return ModeShares(shares.filters, np.zeros(len(shares.filters), np.int64), shares.found_by)


def data_parallel(hybrid: HybridRuns, limits: Floats) -> ModeShares:
    """Split every run by rows as the limits are; what cannot be goes where there is least work so far."""
    num_parts = len(limits)
    counts = np.tile(_portions(hybrid.batch, limits), (len(hybrid.copy_bytes), 1))
    load = np.zeros(num_parts)
    for run in np.flatnonzero(hybrid.splits_rows == 0).tolist():
        lightest = int(np.argmin(load))
        counts[run] = np.where(np.arange(num_parts) == lightest, hybrid.runs.sizes[run], 0)
        load[lightest] += hybrid.work[run]
    return ModeShares(counts, hybrid.splits_rows, "dataparallel")


def _portions(units: int, limits: Floats) -> Ints:
    """Return how many of the units each part gets, in proportion to the limits."""
    upto = np.cumsum(limits) / limits.sum() if limits.sum() else np.arange(1, len(limits) + 1) / len(limits)
    portions: Ints = np.diff(np.floor(upto * units + 1e-9).astype(np.int64), prepend=0)
    return portions


def pipeline(hybrid: HybridRuns, limits: Floats) -> ModeShares:
    """Cut the runs, in order, into stages on parts of their own, each split by rows, for the fewest bytes."""
    for overload in OVERLOADS:
        stages = _best_stages(hybrid, limits, overload)
        if stages:
            break
    counts = np.zeros((len(hybrid.copy_bytes), len(limits)), np.int64)
    by_rows = np.zeros(len(counts), np.int64)
    first_part = 0
    for start, stop, width in stages:
        for run in range(start, stop):
            by_rows[run] = width > 1 and hybrid.splits_rows[run]
            units, parts = (hybrid.batch, width) if by_rows[run] else (int(hybrid.runs.sizes[run]), 1)
            counts[run, first_part : first_part + parts] = _portions(units, limits[first_part : first_part + parts])
        first_part += width
    return ModeShares(_inputs_follow(hybrid, counts, by_rows), by_rows, "local")


def _best_stages(hybrid: HybridRuns, limits: Floats, overload: float) -> list[tuple[int, int, int]]:
    """Return (first run, end, parts) of every stage, by a dynamic program over prefixes; nothing where none fits."""
    num_runs, num_parts = len(hybrid.copy_bytes), len(limits)
    work, copies = _prefixes(hybrid.work), _prefixes(hybrid.copy_bytes)
    fixed = _prefixes(np.where(hybrid.splits_rows, 0, hybrid.work))
    crossing = _crossing_bytes(hybrid)
    rooms = {width: _rooms(hybrid.batch, limits, width, overload) for width in range(1, num_parts + 1)}
    least = np.full((num_runs + 1, num_parts + 1), np.inf)
    least[0, 0] = 0.0
    choice: dict[tuple[int, int], tuple[int, int]] = {}
    for stop in range(1, num_runs + 1):
        for width in range(1, min(num_parts, hybrid.batch) + 1):
            is_splittable = (width == 1) | (fixed[stop] - fixed[:stop] == 0)
            fits = ((work[stop] - work[:stop])[:, None] <= rooms[width]) & is_splittable[:, None]
            cost = crossing[:stop] + (width - 1) * (copies[stop] - copies[:stop])
            total = least[:stop, : num_parts + 1 - width] + np.where(fits, cost[:, None], np.inf)
            best = total.argmin(axis=0)
            for before in np.flatnonzero(total.min(axis=0) < least[stop, width:]).tolist():
                least[stop, before + width] = total[best[before], before]
                choice[stop, before + width] = int(best[before]), width
    return _walk_back(choice, least)


def _rooms(batch: int, limits: Floats, width: int, overload: float) -> Floats:
    """Return the most work of a stage on so many parts, by the first of them: each takes its portion of the rows."""
    if np.isinf(overload):
        return np.full(len(limits) + 1 - width, np.inf)
    rooms = []
    for first in range(len(limits) + 1 - width):
        mine = limits[first : first + width]
        share = _portions(batch, mine) / batch
        rooms.append(overload * np.min(mine[share > 0] / share[share > 0]))
    return np.array(rooms)


def _walk_back(choice: dict[tuple[int, int], tuple[int, int]], least: Floats) -> list[tuple[int, int, int]]:
    stop, parts = len(least) - 1, int(np.argmin(least[-1]))
    stages = []
    while stop and np.isfinite(least[-1, int(np.argmin(least[-1]))]):
        start, width = choice[stop, parts]
        stages.append((start, stop, width))
        stop, parts = start, parts - width
    return stages[::-1]


def _prefixes(values: Floats | Ints) -> Floats:
    return np.concatenate([[0.0], np.cumsum(values, dtype=np.float64)])


def _crossing_bytes(hybrid: HybridRuns) -> Floats:
    """Return the bytes that cross a cut before every run: of the runs before it that are read from it on."""
    crossing, computed = np.zeros(len(hybrid.copy_bytes)), _computed(hybrid)
    for run, size in enumerate(hybrid.whole_bytes.tolist()):
        last = max([*hybrid.runs.readers[run], *hybrid.runs.tied[run]], default=run)
        if run in computed:
            crossing[run + 1 : last + 1] += size
    return crossing


def _computed(hybrid: HybridRuns) -> set[int]:
    """Return the runs that read others: all but the inputs, which go where they are read."""
    links = (hybrid.runs.readers.targets.tolist(), hybrid.runs.tied.targets.tolist())
    return {target for targets in links for target in targets}


def _inputs_follow(hybrid: HybridRuns, counts: Ints, by_rows: Ints) -> Ints:
    """Place every run that reads nothing like its first reader."""
    for run in sorted(set(range(len(counts))) - _computed(hybrid)):
        readers = sorted({*hybrid.runs.readers[run], *hybrid.runs.tied[run]})
        if readers and not hybrid.work[run] and hybrid.splits_rows[run]:
            model = readers[0]
            by_rows[run] = by_rows[model]
            first = np.arange(counts.shape[1]) == np.flatnonzero(counts[model])[0]
            counts[run] = counts[model] if by_rows[run] else np.where(first, hybrid.runs.sizes[run], 0)
    return counts
