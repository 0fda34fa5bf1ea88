"""docs/models.md is true: every habit is run in two ways of its own, and does what its line says."""

import hashlib

import pytest
from habits import HABITS
from harness import Subject
from table import FAULT, PATH, allows, cell, column, expected, first_words, word
from verdicts import Outcome
from ways import WAYS, Way

NUM_WAYS = 2
SAID = expected(PATH.read_text())


def ways_of(name: str) -> list[Way]:
    """Return the ways a habit is run in here; a hash spreads them over all, the same at every run."""
    start = int(hashlib.sha256(name.encode()).hexdigest(), 16)
    step = len(WAYS) // NUM_WAYS + 1  # neither schedule nor rows nor grain need be the same twice
    return [WAYS[(start + n * step) % len(WAYS)] for n in range(NUM_WAYS)]


def test_every_habit_has_its_line_and_no_line_tells_of_a_fault():
    assert SAID.keys() == HABITS.keys()
    assert not [name for name, words in SAID.items() if FAULT in words.values()]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", HABITS)
def test_a_habit_does_what_its_line_says(name):
    subject = Subject(HABITS[name])
    for way in ways_of(name):
        outcome = subject.outcome(way)
        assert not outcome.is_fault, f"{way}: {outcome}"
        assert allows(SAID[name][column(way), way.grain], outcome), f"{way}: {outcome}"


def test_words_of_several_outcomes():
    assert word([Outcome("equal"), Outcome("plain")]) == "equal"
    assert word([Outcome("equal"), Outcome("refused")]) == "varies"
    assert word([Outcome("equal"), Outcome("WRONG")]) == FAULT
    assert word([Outcome("plain"), Outcome("plain")]) == "torch fails"


def test_a_cell_reads_back_grain_by_grain():
    ways = {grain: next(way for way in WAYS if way.grain == grain) for grain in ("coarse", "fine", "hybrid")}
    kinds = {"coarse": "equal", "fine": "refused", "hybrid": "equal"}
    written = cell({ways[grain]: Outcome(kind) for grain, kind in kinds.items()})
    assert written == "equal (coarse, hybrid); refused (fine)"
    name = next(iter(HABITS))
    read = expected(f"| {name} | {' | '.join([written] * 5)} | why |")[name]
    assert {grain: read["async", grain] for grain in kinds} == kinds
    assert first_words("a | b") == "a \\| b"
