"""The fine grain: the coarse placement, which is a fine one too, against polished grids of a few blocks."""

from contextlib import suppress
from dataclasses import replace

from hyperplace.errors import BalanceError, PartitionerError
from hyperplace.portfolio.board import OnProgress
from hyperplace.portfolio.candidate import Candidate, cut, judged, owners_of
from hyperplace.portfolio.coarse import coarse
from hyperplace.portfolio.problem import Problem

FINE_BLOCKS = (8, 12, 24)  # a few blocks per layer: a fine grid of more is slower and no better


def fine(problem: Problem, time_limit_s: float, on_progress: OnProgress) -> Candidate:
    """Return the best of them; an interrupt after the coarse search ends it with the best so far."""
    start = coarse(problem.with_grain("coarse"), time_limit_s, on_progress)
    # The coarse placement needs no finer grid than its own cuts.
    found = [cut(problem.with_blocks(1), owners_of(start), start.partition.found_by)]
    is_cut_short = start.partition.is_cut_short
    most = problem.settings.blocks
    try:
        for blocks in FINE_BLOCKS if problem.settings.k > 1 else ():
            with suppress(BalanceError, PartitionerError):  # too coarse a grid, or the partitioner fails on it
                found.append(_polished(problem.with_blocks(min(blocks, most or blocks))))
            on_progress(f"best {_best(found).volume_bytes / 2**20:.1f} MiB")
    except KeyboardInterrupt:
        is_cut_short = True
    best = _best(found)
    return replace(best, partition=replace(best.partition, is_cut_short=is_cut_short, bound_bytes=None))


def _polished(problem: Problem) -> Candidate:
    from hyperplace.steps.partition.polish import polish

    grid, imbalance = problem.hypergraph(), problem.settings.imbalance
    start = problem.partition(grid, "kahypar")
    return judged(grid, polish(grid, start, imbalance, seed=problem.settings.seed), imbalance)


def _best(found: list[Candidate]) -> Candidate:
    return min((one for one in found if one.is_feasible), key=lambda one: one.volume_bytes)
