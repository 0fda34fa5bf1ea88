"""The exact program against every placement of single filters: its volume is the least, and its bound is no more."""

import threading

import numpy as np
import pytest
from share_cases import (
    MIB,
    SHAPES,
    best_of_all_placements,
    best_of_two_part_counts,
    limits_of,
    random_runs,
    runs_of,
    vgg16_runs,
)

from hyperplace.steps.symmetric.exact import ExactSearch
from hyperplace.values.runs import Shares, shares_volume, shares_work

CASES = [
    (shape, seed, k, imbalance)
    for shape in SHAPES
    for seed in range(5)
    for k, imbalance in ((2, 0.1), (2, 0.6), (3, 0.3), (3, 0.8))
]


def whole_on_one_part(runs, filters):
    solid = runs.is_solid.astype(bool)
    return np.all((filters[solid] == 0) | (filters[solid] == runs.sizes[solid, None]))


def check(runs, limits, scale=1):
    best = best_of_all_placements(runs, limits)
    found = ExactSearch(runs, limits).run()
    if best == np.inf:
        assert found.shares is None
        return
    assert found.is_complete
    assert best * (1 - 1e-3) <= found.bound_bytes <= best * (1 + 1e-6) + scale * 1e-6
    assert np.all(shares_work(runs, found.shares) <= limits * (1 + 1e-9))
    assert found.shares.filters.sum(axis=1).tolist() == runs.sizes.tolist()
    assert whole_on_one_part(runs, found.shares.filters)
    assert shares_volume(runs, found.shares) == best


@pytest.mark.parametrize(("shape", "seed", "k", "imbalance"), CASES)
def test_equals_brute_force(shape, seed, k, imbalance):
    runs = random_runs(shape, seed, largest=3 if k == 2 or SHAPES[shape][0] < 4 else 2)
    check(runs, limits_of(runs, k, imbalance))


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("shape", ["chain", "residual", "branches"])
def test_bytes_far_below_a_mebibyte_are_bounded_too(shape, seed):
    """Costs are in MiB inside, and the solver's tolerances are absolute: a few bytes must not drown in them."""
    runs = random_runs(shape, seed, scale=4)
    check(runs, limits_of(runs, 2, 0.3), scale=4)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    ("reads", "ties"), [([(0, 1), (1, 2)], []), ([(0, 1)], [(0, 2), (1, 2)]), ([(0, 1), (0, 2)], [])]
)
def test_equals_brute_force_where_a_filter_is_a_small_share(reads, ties, seed):
    random = np.random.default_rng(seed)
    work, maps = random.integers(1, 9, 3), random.integers(1, 9, 3) * MIB // 60
    runs = runs_of([60] * 3, work, maps, reads=reads, ties=ties)
    for imbalance in (0.05, 0.3):
        limits = limits_of(runs, 2, imbalance)
        best = best_of_two_part_counts(runs, limits)
        found = ExactSearch(runs, limits).run()
        assert found.bound_bytes <= best * (1 + 1e-6)
        assert best <= shares_volume(runs, found.shares) <= best * 1.001


@pytest.mark.parametrize(("k", "most_mib"), [(2, 98.0), (4, 252.5)])
def test_proves_vgg16(k, most_mib):
    runs = vgg16_runs()
    limits = limits_of(runs, k, 0.1)
    found = ExactSearch(runs, limits).run(time_limit_s=60)
    volume = shares_volume(runs, found.shares)
    assert found.is_complete
    assert volume <= most_mib * MIB
    assert found.bound_bytes <= volume <= found.bound_bytes * 1.001
    assert np.all(shares_work(runs, found.shares) <= limits)


def test_a_start_is_never_lost():
    """Given no time at all, it returns the start."""
    runs = vgg16_runs()
    limits = limits_of(runs, 2, 0.1)
    start = ExactSearch(runs, limits).run().shares
    swapped = Shares(start.filters[:, ::-1], "start")
    again = ExactSearch(runs, limits).run(start=swapped, time_limit_s=0.05)
    assert again.shares is not None
    assert shares_volume(runs, again.shares) <= shares_volume(runs, start) * (1 + 1e-9)


@pytest.mark.parametrize("is_early", [True, False])
def test_can_be_cancelled_from_another_thread(is_early):
    """Eight parts of VGG16 would take hours."""
    runs, ended = vgg16_runs(), threading.Event()
    exact = ExactSearch(runs, limits_of(runs, 8, 0.1))
    thread = threading.Thread(target=lambda: (exact.run(), ended.set()), daemon=True)
    if is_early:
        exact.cancel()
    thread.start()
    if not is_early:
        assert not ended.wait(1.0)
        exact.cancel()
    assert ended.wait(60.0)


def test_nothing_fits_where_solid_layers_cannot_be_packed():
    """Three equal layers that are never split, on two parts."""
    runs = runs_of([2] * 3, [1] * 3, [MIB] * 3, reads=[(0, 1), (1, 2)], solid=(0, 1, 2))
    found = ExactSearch(runs, limits_of(runs, 2, 0.1)).run()
    assert found.shares is None
