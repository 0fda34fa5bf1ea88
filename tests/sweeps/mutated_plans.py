"""Take mutated plan files through load, generate and a step of both schedules: by hand (`make sweep-plans`).

Plans of small models, every grain, k = 2 and 3. A mutant is refused by a HyperplaceError, or its program's loss and
state dict after one step equal plain torch's in float64, async with one in flight and sync, and it moves the bytes that
the plan says. Everything else is a fault: WRONG, HANG, another exception, more than 2 s of computing or 500 MiB. A
mutant that loads as the plan it was made of, or gives a program that was run already, is not run again. Faults are
printed with the mutant's number, and end in exit code 1. The test suite runs a share of this.

    python tests/sweeps/mutated_plans.py 20000 [seed] [number of one mutant]
"""

import random
import sys
from collections import Counter
from functools import cache
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F

sys.path.insert(0, str(Path(__file__).parents[1] / "steps" / "lower"))

from budget import judged, watched
from plan_mutants import mutant
from program_cases import largest_difference, plain_step, planned, sgd

from hyperplace.errors import HyperplaceError
from hyperplace.files.plan import parse_plan, plan_text
from hyperplace.files.program import parse_program
from hyperplace.recapturing import planned_graph
from hyperplace.runtime import RunSettings, Trainer, Training, runnable
from hyperplace.steps.capture import capture
from hyperplace.steps.emit import emit
from hyperplace.steps.lower import lower
from hyperplace.steps.lower.check import imprecise

ROWS = 4
GOOD = ("refused at load", "refused with the model", "refused with the inputs", "the same plan", "equal")


class Chain(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Conv2d(3, 4, 3, padding=1), nn.Conv2d(4, 6, 1), nn.Linear(6, 5)

    def forward(self, x):
        return self.c(F.adaptive_avg_pool2d(F.relu(self.b(F.max_pool2d(F.relu(self.a(x)), 2))), 1).flatten(1))


class Normed(nn.Module):
    """Batch norms, a residual, and a frozen layer."""

    def __init__(self):
        super().__init__()
        self.a, self.m = nn.Conv2d(3, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4)
        self.b, self.n = nn.Conv2d(4, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4)
        self.c = nn.Linear(4 * 16, 5)
        self.a.requires_grad_(requires_grad=False)

    def forward(self, x):
        y = F.relu(self.m(self.a(x)))
        return self.c((self.n(self.b(y)) + y).flatten(1))


class Branches(nn.Module):
    """Groups, a depthwise convolution, a concatenation, and an operation placed whole."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Conv2d(3, 4, 1), nn.Conv2d(4, 6, 3, padding=1, groups=2)
        self.c, self.d = nn.Conv2d(4, 4, 3, padding=1, groups=4), nn.Linear(10, 5)

    def forward(self, x):
        y = F.relu(self.a(x))
        z = torch.cat([self.b(y), self.c(y)], 1).mean((2, 3))
        return self.d(z.cumsum(1))


MODELS = {"chain": Chain, "normed": Normed, "branches": Branches}
WAYS = [("coarse", "scattered"), ("coarse", "horizontal"), ("fine", "scattered"), ("fine", "horizontal")]
WAYS += [("hybrid", "scattered"), ("hybrid", "horizontal"), ("hybrid", "dataparallel")]
CASES = [(name, grain, k, how) for name in MODELS for k in (2, 3) for grain, how in WAYS]


@cache
def subject(name):
    """Return a model with a mini-batch, and what a plain step makes of it."""
    torch.manual_seed(0)
    net = MODELS[name]().double().train()
    x, y = torch.randn(ROWS, 3, 4, 4, dtype=torch.float64), torch.randint(0, 5, (ROWS,))
    loss, after = plain_step(net, (x,), y, F.cross_entropy)
    return net, x, y, loss, after.state_dict()


@cache
def graph_of(name, batch_norm):
    net, x, *_ = subject(name)
    graph = capture(net, x)
    return graph.without_statistics() if batch_norm == "per-shard" else graph


@cache
def case(number):
    """Return a model's name, a plan of it, and the plan's text."""
    name, grain, k, how = CASES[number]
    blocks = 1 if how == "dataparallel" else 2
    plan = planned(graph_of(name, "exact"), grain, k, how, blocks=blocks, row_blocks=k)
    return name, plan, plan_text(plan)


def outcome(number, seed):
    """Return what becomes of a mutant, and the seconds of computing it took."""
    chance = random.Random(f"{seed}/{number}")
    chosen = chance.randrange(len(CASES))
    changed = mutant(case(chosen)[2], chance)
    return judged(lambda: plan_outcome(chosen, changed), is_good=GOOD.__contains__)


def plan_outcome(number, text):
    """Return what becomes of a changed plan of a case."""
    name, original, _ = case(number)
    try:
        plan = parse_plan(text, "mutant")
    except HyperplaceError:
        return "refused at load"
    if plan == original:
        return "the same plan"
    try:
        program = lower(_graph(name, plan), plan)
    except HyperplaceError:
        return "refused with the model"
    try:
        found, moved = _trained(name, emit(program))
    except HyperplaceError:
        return "refused with the inputs"
    if found == "equal" and plan.settings.batch == ROWS and moved != dict(plan.moved_bytes):
        return f"WRONG bytes: {moved}, planned {dict(plan.moved_bytes)}"
    return found


def _graph(name, plan):
    """Return the graph that compile captures; what is not as with the model's own plans is captured again."""
    net, x, *_ = subject(name)
    if plan.inputs == (tuple(x.shape[1:]),) and plan.settings.batch < 2**20:
        graph = graph_of(name, plan.settings.batch_norm)
        if not imprecise(graph, plan):
            return graph
    return planned_graph(net, plan)


@cache
def _trained(name, text):
    """Return how a program's step compares with the plain one, and what it moves."""
    net, x, y, loss, after = subject(name)
    for settings in (RunSettings("async", 1), RunSettings("sync", 1, 1)):
        state, made = net.state_dict(), runnable(parse_program(text), text)
        with Trainer(made, state, training=Training(sgd), loss=F.cross_entropy, settings=settings) as one:
            difference = abs(one.step(x, y).item() - loss)
            difference = max(difference, largest_difference(one.state_dict(), after))
            moved = dict(one.moved_bytes())
        if not difference < 1e-9:
            return f"WRONG by {difference:.1e}, {settings.schedule}", moved
    return "equal", moved


def sweep(numbers, seed, on_fault):
    """Return how many mutants came to what, and the slowest one's seconds."""
    counts, slowest = Counter(), 0.0
    with watched():
        for number in numbers:
            found, seconds = outcome(number, seed)
            counts[found if found in GOOD else found.split()[0]] += 1
            slowest = max(slowest, seconds)
            if found not in GOOD:
                on_fault(number, found)
    return counts, slowest


def main(count, seed=0, number=None):
    numbers = range(count) if number is None else [number]
    counts, slowest = sweep(numbers, seed, lambda n, found: print(f"mutant {n}: {found}", flush=True))
    figures = ", ".join(f"{what} {many}" for what, many in counts.most_common())
    print(f"{sum(counts.values())} mutants: {figures}; slowest {slowest:.2f} s")
    return int(not counts.keys() <= set(GOOD))


if __name__ == "__main__":
    torch.set_num_threads(1)
    sys.exit(main(*map(int, sys.argv[1:])))
