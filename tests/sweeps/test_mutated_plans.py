"""A share of the sweep of mutated plans: whatever a plan file says, it is right or refused."""

import pytest
from mutated_plans import CASES, GOOD, case, sweep

from hyperplace.files.plan import parse_plan


@pytest.mark.timeout(300)
@pytest.mark.parametrize("start", [0, 100, 200])
def test_mutated_plans_are_right_or_refused(start):
    faults = []
    counts, _ = sweep(range(start, start + 100), 0, lambda number, found: faults.append(f"mutant {number}: {found}"))
    assert not faults
    assert counts.keys() <= set(GOOD)
    assert counts["refused at load"] > 30
    assert counts["equal"] + counts["refused with the model"] > 0


def test_the_plans_that_are_mutated_are_right():
    for number in range(len(CASES)):
        _, plan, text = case(number)
        assert parse_plan(text, "plan.json") == plan
