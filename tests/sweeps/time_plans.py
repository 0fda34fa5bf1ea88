"""Hold plans by time against all placements of filters, on small cases drawn at random: how many are as fast?

    python tests/sweeps/time_plans.py --count 200 --seed 0

Chains and residuals on two or three parts of unequal speed with unequal cards, sync and async. Everything is judged by
the same simulation; a plan slower than the best of all placements, or a bound above it, is shown, and the latter is a
fault. `--steps` lets the search go step by step only, as it does where placements are too many to be all tried.
"""

import argparse
import sys
import time
from dataclasses import dataclass, replace
from itertools import pairwise, product

import numpy as np
import torch
from torch import nn

from hyperplace import api
from hyperplace.by_time import search as time_search
from hyperplace.by_time.candidates import any_imbalance
from hyperplace.steps.place import place
from hyperplace.values.cluster import Cluster, Device, Host
from hyperplace.values.layout import layout_of
from hyperplace.values.partition import Partition
from hyperplace.values.plan import Settings

BATCH, SIDE, MOST = 4, 6, 300  # placements of a case


class Residual(nn.Module):
    """Two convolutions, of which one is added to what it reads."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.a, self.b = nn.Conv2d(1, width, 3, padding=1), nn.Conv2d(width, width, 3, padding=1)
        self.c = nn.Linear(width * SIDE * SIDE, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.a(x)
        out: torch.Tensor = self.c((self.b(y) + y).flatten(1))
        return out


@dataclass(frozen=True)
class Case:
    """A model on a cluster."""

    name: str
    model: nn.Module
    cluster: Cluster
    flow: api.FlowWish


def drawn(seed: int) -> Case:
    """Return a case; the same for the same seed."""
    random = np.random.default_rng(seed)
    num_parts, is_chain = int(random.integers(2, 4)), bool(random.integers(2))
    widths = [int(random.integers(1, 3)) for _ in range(3)]
    model = _chain(widths) if is_chain else Residual(widths[0])
    hosts = tuple(_host(random, number) for number in range(num_parts))
    schedule = ("async", "sync")[random.integers(2)]
    flow = api.FlowWish(schedule, 3 if schedule == "async" else None)
    kind = f"chain {widths}" if is_chain else f"residual {widths[0]}"
    return Case(f"{seed}: {kind} on {num_parts} parts, {schedule}", model, Cluster(hosts), flow)


def _chain(widths: list[int]) -> nn.Module:
    sizes = [1, *widths]
    layers: list[nn.Module] = []
    for before, after in pairwise(sizes):
        layers += [nn.Conv2d(before, after, 3, padding=1), nn.ReLU()]
    return nn.Sequential(*layers)


def _host(random: np.random.Generator, number: int) -> Host:
    rates = [float(rate) for rate in random.choice([1e5, 1e6, 1e7, 1e9], 2)]
    return Host(f"h{number}", (Device(speed=float(random.choice([0.4, 0.7, 1.0])), flops_per_s=1e9),), *rates)


def tried(case: Case, time_limit_s: float = 3.0) -> tuple[float, float, float] | None:
    """Return what the plan by time, the best of all placements and the bound take; None where there are too many."""
    number = case.cluster.num_devices
    graph = api.capture(case.model, torch.zeros(BATCH, 1, SIDE, SIDE))
    costs = api.profile(graph, costs="flops", batch=BATCH)
    words = {"grain": "coarse", "partitioner": "auto", "costs": "flops", "batch": BATCH, "blocks": None}
    settings = Settings(model="m", k=number, imbalance=any_imbalance(number), **words)  # type: ignore[arg-type]
    hypergraph = api.build(graph, costs, grain="coarse", blocks=None)
    if number**hypergraph.num_vertices > MOST:
        return None
    taken = []
    for parts in product(range(number), repeat=hypergraph.num_vertices):
        layout = layout_of(hypergraph, Partition(np.array(parts), number), BATCH)
        taken.append(api.forecast(graph, costs, place(graph, costs, layout, settings), case.cluster, case.flow).seconds)
    watch = api.Watch(time_limit_s)
    found = api.place_by_time(graph, costs, replace(settings, grain="auto"), case.cluster, case.flow, watch).best
    return found.seconds, min(taken), api.time_bound(graph, costs, settings, case.cluster, case.flow).seconds


def main() -> int:
    """Try cases; 1 where a bound is above what was found."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", action="store_true")
    asked = parser.parse_args()
    if asked.steps:
        time_search.FEW = 0
    equal = faster = number = wrong = 0
    begin, seed = time.monotonic(), asked.seed
    while number < asked.count:
        case = drawn(seed)
        seed += 1
        if not (taken := tried(case)):
            continue
        number += 1
        found, best, bound = taken
        equal += found <= best * (1 + 1e-9)
        faster += found < best * (1 - 1e-3)
        wrong += bound > min(found, best)
        if found > best * (1 + 1e-9) or bound > min(found, best):
            print(f"{case.name}: found {found:.4g} s, best {best:.4g} s (+{found / best - 1:.1%}), bound {bound:.4g} s")
        if number % 20 == 0 or number == asked.count:
            spent = time.monotonic() - begin
            print(
                f"{number} cases: {equal} as fast as the best of all, {faster} faster by rows, {spent:.0f} s",
                flush=True,
            )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
