"""The local search: balanced, repeatable, never worse than its start, and good."""

import time

import numpy as np
import pytest
from share_cases import MIB, SHAPES, best_of_all_placements, limits_of, random_runs, runs_of, vgg16_runs

from hyperplace.steps.symmetric.local import fill, lengths, search
from hyperplace.values.runs import Shares, shares_volume, shares_work


def check(runs, found, limits):
    assert found.filters.sum(axis=1).tolist() == runs.sizes.tolist()
    assert found.filters.min() >= 0
    assert np.all(shares_work(runs, found) <= limits * (1 + 1e-9))
    solid = runs.is_solid.astype(bool)
    assert np.all((found.filters[solid] == 0) | (found.filters[solid] == runs.sizes[solid, None]))


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("shape", SHAPES)
def test_finds_the_best_placement_of_small_graphs(shape, k):
    for seed in range(5):
        runs = random_runs(shape, seed, largest=3 if k == 2 or SHAPES[shape][0] < 4 else 2)
        limits = limits_of(runs, k, 0.6)
        best = best_of_all_placements(runs, limits)
        found = search(runs, limits, num_moves=20_000, num_restarts=30)
        if best == np.inf:
            assert found is None
            continue
        check(runs, found, limits)
        assert shares_volume(runs, found) == best


def test_restarts_grow_longer_up_to_the_most():
    assert set(lengths(1000)) == {1000}
    free = lengths(10**9)
    assert free == sorted(free)
    assert lengths(500_000) == [min(500_000, moves) for moves in free]


def test_same_seed_same_result():
    runs = vgg16_runs()
    limits = limits_of(runs, 8, 0.1)
    one, two = (search(runs, limits, seed=7, num_moves=50_000, num_restarts=2) for _ in range(2))
    assert one == two
    check(runs, one, limits)


def test_vgg16_on_eight_parts():
    runs = vgg16_runs()
    limits = limits_of(runs, 8, 0.1)
    found = search(runs, limits, num_moves=300_000, num_restarts=60)
    check(runs, found, limits)
    assert shares_volume(runs, found) <= 700 * MIB


@pytest.mark.parametrize("k", [3, 64])
def test_vgg16_is_balanced_and_better_than_filling(k):
    runs = vgg16_runs()
    limits = limits_of(runs, k, 0.1)
    found = search(runs, limits, num_moves=100_000, num_restarts=2)
    check(runs, found, limits)
    assert shares_volume(runs, found) < shares_volume(runs, Shares(fill(runs, np.ones(k))))


def test_never_worse_than_a_balanced_start():
    """Too few moves to find anything: the start comes back."""
    runs = vgg16_runs()
    limits = limits_of(runs, 8, 0.1)
    start = search(runs, limits, num_moves=200_000, num_restarts=2)
    for seed in range(3):
        again = search(runs, limits, seed=seed, start=start, num_moves=50, num_restarts=1)
        assert again is not None
        assert shares_volume(runs, again) <= shares_volume(runs, start)


def test_a_start_is_not_changed():
    runs = vgg16_runs()
    start = Shares(fill(runs, np.ones(4)))
    before = start.filters.copy()
    search(runs, limits_of(runs, 4, 0.1), start=start, num_moves=20_000, num_restarts=2)
    assert np.array_equal(start.filters, before)


def test_a_stop_ends_it_at_once():
    runs = vgg16_runs()
    limits = limits_of(runs, 8, 0.1)
    search(runs, limits, num_moves=10, num_restarts=1)  # compiled
    begin = time.perf_counter()
    search(runs, limits, num_moves=10**9, stop=lambda: True)
    assert time.perf_counter() - begin < 2


def test_a_stop_returns_the_best_so_far():
    runs = vgg16_runs()
    limits = limits_of(runs, 8, 0.1)
    start = search(runs, limits, num_moves=100_000, num_restarts=1)
    stopped = search(runs, limits, start=start, stop=lambda: True)
    assert stopped is not None
    assert shares_volume(runs, stopped) <= shares_volume(runs, start)


def test_no_work_at_all_is_one_part():
    runs = runs_of([3, 3], [0, 0], [MIB, MIB], reads=[(0, 1)])
    found = search(runs, np.zeros(3), num_moves=5_000, num_restarts=30)
    assert shares_volume(runs, found) == 0


def test_more_parts_than_filters_of_a_layer():
    runs = runs_of([2, 3, 2], [1, 1, 1], [MIB] * 3, reads=[(0, 1), (1, 2)])
    limits = np.ones(7)
    found = search(runs, limits, num_moves=50_000, num_restarts=30)
    check(runs, found, limits)


@pytest.mark.parametrize("k", [2, 5, 16])
def test_filling_keeps_solid_runs_whole(k):
    runs = vgg16_runs()
    filters = fill(runs, np.ones(k))
    solid = runs.is_solid.astype(bool)
    assert filters.sum(axis=1).tolist() == runs.sizes.tolist()
    assert np.all((filters[solid] == 0) | (filters[solid] == runs.sizes[solid, None]))
