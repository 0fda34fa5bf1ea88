"""Whole filters near given shares."""

import numpy as np
import pytest
from share_cases import MIB, limits_of, runs_of

from hyperplace.steps.symmetric.rounding import rounded


def fractional(seed, num_runs=6, num_parts=4):
    """Return runs and shares that keep the limit, some of them 0."""
    random = np.random.default_rng(seed)
    runs = runs_of(random.integers(1, 40, num_runs), random.integers(0, 9, num_runs), [MIB] * num_runs)
    shares = random.dirichlet(np.full(num_parts, 0.4), num_runs)
    shares[shares < 0.05] = 0.0
    return runs, shares / shares.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("seed", range(40))
def test_laws(seed):
    runs, shares = fractional(seed)
    load = runs.work @ (shares * runs.sizes[:, None])
    generous, tight = load.max() + runs.work.sum(), load.max() * 1.01
    for limit in (generous, tight):
        filters = rounded(runs, shares, np.full(shares.shape[1], limit))
        if limit == generous:
            assert filters is not None, "there is room for one more filter of every run"
        if filters is None:
            continue
        assert filters.sum(axis=1).tolist() == runs.sizes.tolist()
        assert (runs.work @ filters).max() <= limit
        assert np.all(filters[shares == 0] == 0)
        assert filters.min() >= 0


def test_whole_filters_stay_as_they_are():
    runs = runs_of([8, 5], [2, 1], [MIB, MIB])
    filters = np.array([[3, 5, 0], [0, 1, 4]])
    assert np.array_equal(rounded(runs, filters / runs.sizes[:, None], limits_of(runs, 3, 2.0)), filters)


def test_traces_of_a_share_open_nothing():
    """A solver's 1e-9 is 0."""
    runs = runs_of([10, 10], [1, 1], [MIB, MIB])
    filters = rounded(runs, np.array([[1 - 1e-9, 1e-9], [-1e-12, 1.0]]), np.full(2, 10.0))
    assert filters.tolist() == [[10, 0], [0, 10]]


def test_says_when_the_limit_cannot_be_kept():
    runs = runs_of([1], [1], [MIB])
    assert rounded(runs, np.array([[0.5, 0.5]]), np.full(2, 0.5)) is None
