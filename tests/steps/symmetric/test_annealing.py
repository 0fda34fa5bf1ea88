"""The moves of the local search: whatever they do, the state beside the shares is that of the shares."""

import numpy as np
import pytest
from share_cases import MIB, SHAPES, limits_of, random_runs, random_shares, vgg16_runs

from hyperplace.steps.symmetric.annealing import anneal
from hyperplace.steps.symmetric.compiled import Schedule, seed_moves
from hyperplace.steps.symmetric.local import problem_of, state_of
from hyperplace.values.runs import Shares, shares_volume, shares_work

KEPT = ("open_readers", "received", "load")


def annealed(runs, num_parts, seed, num_moves=5_000):
    """Return the state after hot moves from random shares, most of which are taken, the best and its bytes."""
    limits = limits_of(runs, num_parts, 0.3)
    filters = np.array(random_shares(runs, num_parts, seed).filters)
    problem, best = problem_of(runs, limits), np.array(filters)
    state = state_of(problem, limits, filters)
    seed_moves(seed)
    schedule = Schedule(8.0 * MIB, 0.1 * MIB, 0.01 * MIB, float(MIB))
    best_bytes = anneal(problem, state, best, np.inf, schedule, (0, num_moves, num_moves))
    return problem, limits, state, best, best_bytes


def check(runs, num_parts, seed):
    problem, limits, state, best, best_bytes = annealed(runs, num_parts, seed)
    fresh = state_of(problem, limits, state.filters.copy())
    assert state.filters.min() >= 0
    assert state.filters.sum(axis=1).tolist() == runs.sizes.tolist()
    for name in KEPT:
        np.testing.assert_allclose(getattr(state, name), getattr(fresh, name), rtol=1e-9, atol=1e-6)
    volume, overload = (
        shares_volume(runs, Shares(state.filters)),
        shares_work(runs, Shares(state.filters)) - limits,
    )
    np.testing.assert_allclose(state.totals, [volume, overload.clip(0).sum()], rtol=1e-9, atol=1e-6)
    if best_bytes < np.inf:
        assert best_bytes == pytest.approx(shares_volume(runs, Shares(best)))
        assert np.all(shares_work(runs, Shares(best)) <= limits * (1 + 1e-9))
    check_lists(state)


def check_lists(state):
    """Compare who is open where with the shares, and every entry's place with where it stands."""
    for run, part in np.ndindex(state.filters.shape):
        is_open = state.filters[run, part] > 0
        parts = state.parts_of[run, 1 : 1 + state.parts_of[run, 0]].tolist()
        there = state.runs_on[part, 1 : 1 + state.runs_on[part, 0]].tolist()
        assert parts.count(part) == there.count(run) == is_open
        if is_open:
            assert state.places[run, part, :2].tolist() == [1 + parts.index(part), 1 + there.index(run)]


@pytest.mark.parametrize("shape", SHAPES)
def test_the_state_is_that_of_the_shares(shape):
    for seed in range(5):
        check(random_runs(shape, seed, largest=9), 4, seed)


def test_the_state_is_that_of_the_shares_of_vgg16():
    check(vgg16_runs(), 12, 0)
