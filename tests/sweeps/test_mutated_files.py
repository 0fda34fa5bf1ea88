"""A share of the sweep of mutated files: each is right or refused, in time, and nothing of it runs."""

import pytest
from file_kinds import KINDS
from mutated_files import sweep

COUNT = 60


@pytest.mark.timeout(300)
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "plan"])  # which has tests of its own
def test_mutated_files_are_right_or_refused(kind):
    counts, findings = sweep(kind, range(COUNT), 0, say=lambda *words, **more: None)
    assert not findings
    assert sum(counts.values()) == COUNT
    assert counts["refused"] > COUNT / 4
    assert counts["right"] > 0
