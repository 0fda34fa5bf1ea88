"""A random model with the one way it is run: what the sweep and the test suite share."""

import random
from dataclasses import replace

from harness import Subject
from random_models import random_habit, random_model
from verdicts import Outcome
from ways import WAYS, Way


def way_of(seed: int) -> Way:
    """Return the way that is drawn for a seed."""
    return random.Random(f"way {seed}").choice(WAYS)


def outcome_of(seed: int) -> Outcome:
    """Return what became of the model of a seed, its detail with the way and the model where it is a fault.

    Where rows depend on each other, micro-batches are left to the default.
    """
    subject, way = Subject(random_habit(seed)), way_of(seed)
    outcome = subject.outcome(way)
    if outcome.kind == "not asked":
        way = replace(way, micro_batches=None)
        outcome = subject.outcome(way)
    if not outcome.is_fault:
        return outcome
    return replace(outcome, detail=f"{outcome.detail}\n{way}\n{random_model(seed).description()}\n")
