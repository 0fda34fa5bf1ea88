"""The bound from pricing single parts is a bound: below every placement, found by whatever means."""

import numpy as np
import pytest
from share_cases import MIB, SHAPES, best_of_all_placements, limits_of, random_runs, runs_of, vgg16_runs

from hyperplace.steps.symmetric.bound import pricing_bound
from hyperplace.steps.symmetric.crowding import crowded
from hyperplace.steps.symmetric.exact import ExactSearch
from hyperplace.steps.symmetric.local import search
from hyperplace.values.runs import shares_volume

BEST_KNOWN_VGG16_K8 = 640.4 * MIB  # DESIGN, section 5


def check(runs, k, imbalance):
    limits = limits_of(runs, k, imbalance)
    best = best_of_all_placements(runs, limits)
    known = ExactSearch(runs, limits).run().shares
    if best == np.inf:
        return None
    raised = []
    bound = pricing_bound(runs, limits, [known], on_bound=raised.append)
    assert bound <= best * (1 + 1e-6)
    assert bound <= shares_volume(runs, known) * (1 + 1e-6)
    assert raised == sorted(raised)
    assert bound == max(raised, default=0.0)
    return bound / best if best else 1.0


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("shape", SHAPES)
def test_never_above_the_best_placement(shape, k):
    largest = 3 if k == 2 or SHAPES[shape][0] < 4 else 2
    checked = [
        check(random_runs(shape, seed, largest=largest), k, imbalance) for seed in range(5) for imbalance in (0.3, 0.8)
    ]
    assert any(checked)  # none of them placed, or none bounded


def random_graph(seed):
    """Return four or five layers of at most three filters, each reading some of those before it."""
    random = np.random.default_rng(seed)
    count = int(random.integers(4, 6))
    reads = {(int(random.integers(reader)), reader) for reader in range(1, count) for _ in range(2)}
    sizes, work, maps = random.integers(1, 4, count), random.integers(1, 9, count), random.integers(1, 9, count)
    solid = [layer for layer in range(count) if random.random() < 0.2]
    return runs_of(sizes, work, maps * MIB, reads=reads, solid=solid)


@pytest.mark.parametrize("seed", range(40))
def test_never_above_the_best_placement_of_random_graphs(seed):
    runs = random_graph(seed)
    assert check(runs, 2, 0.2) > 0.25
    if runs.sizes.sum() < 11:  # 3^10 placements
        assert check(runs, 3, 0.5) > 0.5


@pytest.mark.parametrize("k", [2, 3, 5])
def test_a_crowd_never_needs_more_parts_than_a_balanced_placement_gives_it(k):
    """Every part alone, taken once: no balanced placement is crowded."""
    runs = vgg16_runs()
    limits = limits_of(runs, k, 0.1)
    found = search(runs, limits, num_moves=100_000, num_restarts=2)
    assert crowded(runs, limits[0], (found.filters / runs.sizes[:, None]).T, np.ones(k)) == []
    half = crowded(runs, limits[0], (found.filters / runs.sizes[:, None]).T, np.full(k, 0.4))
    assert half, "of 0.4 of every part there is too little for anyone"


@pytest.mark.parametrize("seed", range(6))
def test_never_above_the_best_placement_of_a_few_bytes(seed):
    check(random_runs("chain", seed, scale=4), 2, 0.5)


def test_does_not_cross_the_best_known_placement_of_vgg16():
    runs = vgg16_runs()
    limits = limits_of(runs, 8, 0.1)
    known = search(runs, limits, num_moves=100_000, num_restarts=3)
    raised = []
    bound = pricing_bound(runs, limits, [known], max_rounds=60, on_bound=raised.append)
    assert 440 * MIB < bound <= BEST_KNOWN_VGG16_K8
    assert max(raised) == bound


def test_a_stop_ends_it_with_what_it_has():
    runs = vgg16_runs()
    limits = limits_of(runs, 4, 0.1)
    known = search(runs, limits, num_moves=50_000, num_restarts=1)
    assert pricing_bound(runs, limits, [known], stop=lambda: True) == 0.0
    raised = []
    bound = pricing_bound(runs, limits, [known], stop=lambda: bool(raised), on_bound=raised.append)
    assert 0 < bound == raised[-1]
    assert len(raised) == 1
