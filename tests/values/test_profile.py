"""Work is counted pass by pass, and its total is what it was when it was one number."""

from dataclasses import astuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hyperplace.errors import UsageError
from hyperplace.values.profile import LayerCost, Profile, Work, cost_of_rows

amounts = st.floats(0, 1e12)
works = st.builds(Work, amounts, amounts, amounts)


@given(works, works, st.floats(0.001, 1000))
def test_totals_follow_their_passes(one, other, times):
    assert one.total == sum(astuple(one))
    assert (one + other).total == pytest.approx(one.total + other.total)
    assert (one * times).total == pytest.approx(one.total * times)
    assert (one / times).total == pytest.approx(one.total / times)


@given(works, works)
def test_passes_do_not_mix(one, other):
    assert astuple(one + other) == tuple(a + b for a, b in zip(astuple(one), astuple(other), strict=True))
    assert astuple(one - other) == tuple(a - b for a, b in zip(astuple(one), astuple(other), strict=True))
    assert one + Work() == one * 1 == one / 1 == one


def test_a_cost_gives_totals_too():
    cost = LayerCost("conv", Work(1, 2, 3), Work(0.5, 1), Work(update=4))
    assert (cost.filter_work, cost.kernel_work, cost.tail_work) == (6, 1.5, 4)


@pytest.mark.parametrize("bad", [-1.0, float("nan"), float("inf")])
@pytest.mark.parametrize("name", ["forward", "backward", "update"])
def test_no_pass_may_be_negative_though_the_total_is_not(name, bad):
    good = Work(5, 5, 5)
    layers = (LayerCost("conv", good, good, Work(**{"forward": 5, name: bad})),)
    with pytest.raises(UsageError, match="layer conv has a cost that is negative or not a number"):
        Profile("measured", "us", 1, layers)


@pytest.mark.parametrize(
    ("half", "shares"),
    [
        (0.5, {1.0: 1.0, 0.75: 0.75, 0.5: 0.5, 0.25: 0.25}),  # nothing is fixed
        (0.6, {1.0: 1.0, 0.75: 0.8, 0.5: 0.6, 0.25: 0.4}),  # a fifth is
        (0.4, {1.0: 1.0, 0.5: 0.4, 0.25: 0.2}),  # fewer rows are faster each
        (3.0, {1.0: 1.0, 0.75: 2.0, 0.5: 3.0, 0.25: 3.0}),  # another kernel
    ],
)
def test_what_a_share_of_the_rows_costs(half, shares):
    for share, cost in shares.items():
        assert cost_of_rows(half, share) == pytest.approx(cost)
