"""A share of the sweep of signals: a run that is disturbed ends in time and goes on to the same losses."""

import csv
import subprocess
import sys
from pathlib import Path

import pytest

SWEEP = Path(__file__).with_name("signals.py")
NAMES = ("SIGINT", "SIGTERM", "SIGKILL")


@pytest.mark.timeout(300)
def test_disturbed_commands_end_in_time_and_go_on():
    """In a process of its own: it forks, and this one has threads."""
    words = [word for name in NAMES for word in (name, "1")]
    ran = subprocess.run([sys.executable, SWEEP, *words], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    rows = list(csv.DictReader(ran.stdout.splitlines()))
    assert [(row["command"], row["signal"]) for row in rows] == [(c, n) for n in NAMES for c in ("train", "partition")]
    assert all(int(row["runs with the same losses"]) >= 1 for row in rows if row["command"] == "train")
