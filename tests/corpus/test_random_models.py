"""A share of the random models that tests/sweeps/random_models.py runs by the thousand."""

import pytest
import torch
from drawn_models import outcome_of
from random_models import random_model

SHARE = range(40)


@pytest.mark.parametrize("seed", SHARE)
@pytest.mark.filterwarnings("ignore")
def test_random_models_are_equal_or_refused(seed):
    outcome = outcome_of(seed)
    assert not outcome.is_fault, str(outcome)


def test_a_seed_is_one_model():
    one, other = random_model(3), random_model(3)
    assert one.description() == other.description()
    assert all(torch.equal(a, b) for a, b in zip(one.state_dict().values(), other.state_dict().values(), strict=True))
