"""The bound from pricing single parts is a bound: below every placement, found by whatever means."""

import numpy as np
import pytest
from share_cases import MIB, SHAPES, best_of_all_placements, limit_of, random_runs, vgg16_runs

from hyperplace.steps.share.bound import pricing_bound
from hyperplace.steps.share.exact import ExactSearch
from hyperplace.steps.share.local import search
from hyperplace.values.runs import shares_volume

BEST_KNOWN_VGG16_K8 = 640.4 * MIB  # DESIGN, section 5


def check(runs, k, imbalance):
    limit = limit_of(runs, k, imbalance)
    best = best_of_all_placements(runs, k, limit)
    known = ExactSearch(runs, k, limit).run().shares
    if best == np.inf or known is None:
        return False
    raised = []
    bound = pricing_bound(runs, k, limit, [known], on_bound=raised.append)
    assert bound <= best * (1 + 1e-6)
    assert bound <= shares_volume(runs, known) * (1 + 1e-6)
    assert raised == sorted(raised)
    assert bound == max(raised, default=0.0)
    return True


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("shape", SHAPES)
def test_never_above_the_best_placement(shape, k):
    largest = 3 if k == 2 or SHAPES[shape][0] < 4 else 2
    checked = [
        check(random_runs(shape, seed, largest=largest), k, imbalance) for seed in range(5) for imbalance in (0.3, 0.8)
    ]
    assert any(checked)


@pytest.mark.parametrize("seed", range(6))
def test_never_above_the_best_placement_of_a_few_bytes(seed):
    check(random_runs("chain", seed, scale=4), 2, 0.5)


def test_does_not_cross_the_best_known_placement_of_vgg16():
    runs = vgg16_runs()
    limit = limit_of(runs, 8, 0.1)
    known = search(runs, 8, limit, num_moves=100_000, num_restarts=3)
    raised = []
    bound = pricing_bound(runs, 8, limit, [known], max_rounds=30, on_bound=raised.append)
    assert 300 * MIB < bound <= BEST_KNOWN_VGG16_K8
    assert max(raised) == bound


def test_a_stop_ends_it_with_what_it_has():
    runs = vgg16_runs()
    limit = limit_of(runs, 4, 0.1)
    known = search(runs, 4, limit, num_moves=50_000, num_restarts=1)
    assert pricing_bound(runs, 4, limit, [known], stop=lambda: True) == 0.0
