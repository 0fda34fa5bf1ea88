"""Parts with limits of their own: every search against trying everything."""

import numpy as np
import pytest
from hybrid_cases import best_of_all_ways, random_hybrid
from share_cases import MIB, SHAPES, best_of_all_placements, random_runs, runs_of

from hyperplace.steps.symmetric.bound import pricing_bound
from hyperplace.steps.symmetric.exact import ExactSearch
from hyperplace.steps.symmetric.hybrid_exact import HybridProgram
from hyperplace.steps.symmetric.hybrid_local import search_modes
from hyperplace.steps.symmetric.hybrid_starts import data_parallel, pipeline
from hyperplace.steps.symmetric.local import search
from hyperplace.steps.symmetric.rounding import rounded
from hyperplace.values.modes import modes_volume, modes_work
from hyperplace.values.runs import shares_volume, shares_work

UNEVEN = [(0.3, 0.9), (0.85, 0.25), (0.0, 1.0), (0.2, 0.4, 0.6), (0.7, 0.1, 0.35), (0.3, 0.3, 0.6)]


@pytest.mark.parametrize("portions", UNEVEN)
@pytest.mark.parametrize("shape", SHAPES)
def test_filters_against_trying_everything(shape, portions):
    placed = 0
    for seed in range(4):
        runs = random_runs(shape, seed, largest=3 if len(portions) == 2 or SHAPES[shape][0] < 4 else 2)
        limits = np.array(portions) * runs.total_work
        best = best_of_all_placements(runs, limits)
        exact = ExactSearch(runs, limits).run()
        local = search(runs, limits, num_moves=5_000, num_restarts=30)
        if best == np.inf:
            assert exact.shares is None
            assert local is None
            continue
        placed += 1
        assert best * (1 - 1e-3) <= exact.bound_bytes <= best * (1 + 1e-6) + 1e-6
        for found in (exact.shares, local):
            assert shares_volume(runs, found) == best
            assert np.all(shares_work(runs, found) <= limits * (1 + 1e-9))
        assert pricing_bound(runs, limits, [exact.shares], max_rounds=30) <= best * (1 + 1e-6)
    assert placed or shape == "pair"


@pytest.mark.parametrize("portions", [one for one in UNEVEN if len(one) == 2])
@pytest.mark.parametrize("shape", [shape for shape, (count, _, _) in SHAPES.items() if count <= 4])
def test_rows_against_trying_everything(shape, portions):
    for seed in range(3):
        hybrid = random_hybrid(shape, seed)
        limits = np.array(portions) * hybrid.runs.total_work
        best = best_of_all_ways(hybrid, limits)
        starts = [data_parallel(hybrid, limits), pipeline(hybrid, limits)]
        local = search_modes(hybrid, limits, starts, num_moves=20_000, num_restarts=8)
        exact = HybridProgram(hybrid, limits).run()
        if np.isinf(best):
            assert local is None
            continue
        assert exact.bound_bytes <= best * (1 + 1e-6) + 1
        assert modes_volume(hybrid, local) == pytest.approx(best)
        assert np.all(modes_work(hybrid, local) <= limits * (1 + 1e-9))
        if exact.shares is not None:
            assert np.all(modes_work(hybrid, exact.shares) <= limits * (1 + 1e-6))
            assert modes_volume(hybrid, exact.shares) >= best * (1 - 1e-9)


def test_a_start_is_taken_whichever_part_is_the_larger():
    """Of parts with different limits none may be renamed."""
    runs = runs_of([4, 4], [1, 1], [MIB, MIB], reads=[(0, 1)])
    for limits in (np.array([6.0, 2.0]), np.array([2.0, 6.0])):
        start = search(runs, limits, num_moves=2_000, num_restarts=6)
        found = ExactSearch(runs, limits).run(start=start)
        assert np.all(shares_work(runs, found.shares) <= limits)
        assert shares_volume(runs, found.shares) <= shares_volume(runs, start)


def test_rounding_fills_the_part_that_has_room():
    runs = runs_of([3], [1], [MIB])
    assert rounded(runs, np.array([[0.5, 0.5]]), np.array([1.0, 2.0])).tolist() == [[1, 2]]
    assert rounded(runs, np.array([[0.5, 0.5]]), np.array([2.0, 1.0])).tolist() == [[2, 1]]


@pytest.mark.parametrize("portions", [(3.0, 1.0), (1.0, 2.0, 1.0)])
def test_starts_follow_the_limits(portions):
    hybrid = random_hybrid("chain", 0, batch=8, largest=6)
    limits = np.array(portions) / sum(portions) * hybrid.runs.total_work
    rows = data_parallel(hybrid, limits).counts[hybrid.splits_rows == 1]
    assert np.array_equal(rows, np.tile(np.array(portions) * 8 / sum(portions), (len(rows), 1)))
