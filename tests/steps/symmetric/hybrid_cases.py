"""Hybrid runs made by hand, and answers to compare with that try everything."""

from itertools import product

import numpy as np
from share_cases import random_runs

from hyperplace.values.modes import HybridRuns, ModeShares, modes_volume, modes_work


def random_hybrid(shape, seed, *, batch=3, largest=2):
    """Return random runs of a shape with random copies; now and then one whose rows stay together."""
    random = np.random.default_rng([seed, 1, *shape.encode()])
    runs = random_runs(shape, seed, largest=largest)
    copies = random.integers(0, 3, len(runs.sizes)) * 2**20
    return HybridRuns(runs, batch, copies, (random.random(len(runs.sizes)) < 0.85).astype(np.int64))


def random_modes(hybrid, num_parts, seed):
    """Return random shares, split in random ways."""
    random = np.random.default_rng(seed)
    by_rows = random.integers(0, 2, len(hybrid.splits_rows)) * hybrid.splits_rows
    counts = []
    for run, units in enumerate(hybrid.units(by_rows).tolist()):
        line = random.multinomial(units, random.dirichlet(np.full(num_parts, 0.5)))
        if hybrid.runs.is_solid[run] and not by_rows[run]:
            line = np.eye(num_parts, dtype=np.int64)[random.integers(num_parts)] * units
        counts.append(line)
    return ModeShares(np.array(counts), by_rows, "random")


def best_of_all_ways(hybrid, limits):
    """Return the least bytes of any balanced shares on two parts, each run split one way, by trying all."""
    best = np.inf
    for by_rows in product(*((0, 1) if splits else (0,) for splits in hybrid.splits_rows.tolist())):
        units = hybrid.units(np.array(by_rows)).tolist()
        ranges = [
            (0, size) if solid and not split else range(size + 1)
            for size, solid, split in zip(units, hybrid.runs.is_solid.tolist(), by_rows, strict=True)
        ]
        for counts in product(*ranges):
            shares = ModeShares(np.array([counts, np.array(units) - counts]).T, np.array(by_rows))
            if np.all(modes_work(hybrid, shares) <= limits * (1 + 1e-9)):
                best = min(best, modes_volume(hybrid, shares))
    return best
