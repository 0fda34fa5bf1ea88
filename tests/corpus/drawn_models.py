"""A random model with the one way it is run: what the sweep and the test suite share."""

import random
from dataclasses import replace

from harness import WAYS, Outcome, Subject, Way
from random_models import random_habit, random_model


def way_of(seed: int) -> Way:
    """Return the way that is drawn for a seed."""
    return random.Random(f"way {seed}").choice(WAYS)


def outcome_of(seed: int) -> Outcome:
    """Return what became of the model of a seed; where rows depend on each other, with the default of micro-batches."""
    subject, way = Subject(random_habit(seed)), way_of(seed)
    outcome = subject.outcome(way)
    return subject.outcome(replace(way, micro_batches=None)) if outcome.kind == "not asked" else outcome


def drawn(seed: int) -> str:
    """Return the way and the model as text."""
    return f"{way_of(seed)}\n{random_model(seed).description()}"
