"""The share of the sweep of time plans that the tests run."""

import pytest
from time_plans import drawn, tried


@pytest.mark.parametrize("seed", [1, 2, 6])
def test_a_plan_by_time_is_as_fast_as_the_best_of_all_placements_and_no_faster_than_the_bound(seed):
    found, best, bound = tried(drawn(seed), 1.0)
    assert found <= best * (1 + 1e-9)
    assert bound <= min(found, best)
