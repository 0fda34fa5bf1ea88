"""The hybrid searches: their incremental counts against plain ones, the exact program against trying everything."""

from functools import cache

import numba
import numpy as np
import pytest
from hybrid_cases import best_of_all_ways, random_hybrid, random_modes
from share_cases import SHAPES, limits_of

from hyperplace.models import load_model
from hyperplace.steps.build import build_hybrid_runs
from hyperplace.steps.capture import capture
from hyperplace.steps.profile.work import count_flops
from hyperplace.steps.symmetric.compiled import Schedule, seed_moves
from hyperplace.steps.symmetric.hybrid_exact import HybridProgram
from hyperplace.steps.symmetric.hybrid_local import problem_of, search_modes, state_of
from hyperplace.steps.symmetric.hybrid_moves import anneal, move, take_back
from hyperplace.steps.symmetric.hybrid_starts import data_parallel, pipeline
from hyperplace.values.modes import ModeShares, modes_volume, modes_work

CASES = [(shape, seed) for shape in SHAPES for seed in range(3)]
FEW = [case for case in CASES if len(random_hybrid(*case).copy_bytes) <= 4]  # runs, so that all ways can be tried


@numba.njit
def moved(problem, state):
    move(problem, state)


@numba.njit
def taken_back(problem, state):
    take_back(problem, state)


@pytest.mark.parametrize(("shape", "seed"), CASES)
def test_every_move_keeps_the_books(shape, seed):
    hybrid = random_hybrid(shape, seed, batch=8, largest=6)
    limits = limits_of(hybrid.runs, 3, 0.2)
    problem = problem_of(hybrid, limits)
    start = random_modes(hybrid, 3, seed)
    state = state_of(problem, limits, np.array(start.counts), np.array(start.by_rows))
    seed_moves(seed)
    for number in range(300):
        before = state.counts.copy(), state.by_rows.copy(), state.totals.copy()
        moved(problem, state)
        now = ModeShares(state.counts, state.by_rows)
        assert state.counts.min() >= 0
        assert np.array_equal(now.counts.sum(axis=1), hybrid.units(now.by_rows))
        assert not np.any(state.by_rows & ~hybrid.splits_rows.astype(bool))
        assert state.totals[0] == pytest.approx(modes_volume(hybrid, now), abs=1)
        overload = np.maximum(modes_work(hybrid, now) - limits, 0).sum()
        assert state.totals[1] == pytest.approx(overload, abs=1e-6)
        if number % 2:
            taken_back(problem, state)
            assert np.array_equal(state.counts, before[0])
            assert np.array_equal(state.by_rows, before[1])
            assert state.totals.tolist() == pytest.approx(before[2].tolist(), abs=1)


@pytest.mark.parametrize(("shape", "seed"), FEW)
def test_searches_against_trying_everything(shape, seed):
    hybrid = random_hybrid(shape, seed)
    limits = limits_of(hybrid.runs, 2, 0.3)
    best = best_of_all_ways(hybrid, limits)
    starts = [data_parallel(hybrid, limits), pipeline(hybrid, limits)]
    local = search_modes(hybrid, limits, starts, num_moves=20_000, num_restarts=8)
    exact = HybridProgram(hybrid, limits).run()
    assert exact.bound_bytes <= best * (1 + 1e-6) + 1
    if np.isinf(best):
        assert local is None
        return
    assert modes_volume(hybrid, local) == pytest.approx(best)
    if exact.shares is not None:
        assert modes_volume(hybrid, exact.shares) >= best * (1 - 1e-9)
        assert np.all(modes_work(hybrid, exact.shares) <= limits * (1 + 1e-6))


@pytest.mark.parametrize("shape", SHAPES)
def test_the_exact_program_accepts_a_start(shape):
    hybrid = random_hybrid(shape, 0)
    limits = limits_of(hybrid.runs, 2, 0.5)
    start = search_modes(hybrid, limits, [pipeline(hybrid, limits)], num_moves=5000, num_restarts=4)
    assert start is not None
    found = HybridProgram(hybrid, limits).run(start=start, time_limit_s=1e-3)
    assert found.shares is not None
    assert modes_volume(hybrid, found.shares) <= modes_volume(hybrid, start) + 1


@cache
def vgg():
    loaded = load_model("vgg11", [(3, 32, 32)])
    graph = capture(loaded.module, loaded.sample)
    return build_hybrid_runs(graph, count_flops(graph, 32), fc="whole")


def test_same_seed_same_result_and_balanced():
    limits = limits_of(vgg().runs, 4, 0.1)
    starts = [pipeline(vgg(), limits), data_parallel(vgg(), limits)]
    found = [search_modes(vgg(), limits, starts, seed=seed, num_moves=20_000, num_restarts=4) for seed in (1, 1)]
    assert found[0] == found[1]
    assert np.all(modes_work(vgg(), found[0]) <= limits * (1 + 1e-9))
    assert modes_volume(vgg(), found[0]) <= modes_volume(vgg(), starts[1])


@pytest.mark.parametrize("num_parts", [1, 2, 5, 32, 40])
def test_starts_place_everything(num_parts):
    limits = limits_of(vgg().runs, num_parts, 0.1)
    for start in (data_parallel(vgg(), limits), pipeline(vgg(), limits)):
        assert start.counts.min() >= 0
        assert np.array_equal(start.counts.sum(axis=1), vgg().units(start.by_rows))


def test_the_best_is_only_ever_a_balanced_one():
    limits = np.full(2, 0.5 * vgg().runs.total_work / 2)  # which nothing can meet
    problem, start = problem_of(vgg(), limits), data_parallel(vgg(), limits)
    state = state_of(problem, limits, np.array(start.counts), np.array(start.by_rows))
    best = np.array(start.counts), np.array(start.by_rows)
    assert anneal(problem, state, best, np.inf, Schedule(1e6, 1e3, 1, 10), (0, 2000, 2000)) == np.inf
