"""Threads take turns: asked in processes of their own, for a policy is not given back."""

import os
import subprocess
import sys

import pytest

ASKED = """
import os, threading
from hyperplace.processor import take_turns

os.sched_setscheduler(0, getattr(os, {first!r}), os.sched_param(0))  # whatever the tests' own process has
said, found = take_turns(), []
thread = threading.Thread(target=lambda: found.append(os.sched_getscheduler(0)))
thread.start()
thread.join()
print(said, [name for name in ("SCHED_OTHER", "SCHED_BATCH", "SCHED_IDLE") if getattr(os, name) == found[0]][0])
"""

pytestmark = pytest.mark.skipif(not hasattr(os, "SCHED_BATCH"), reason="policies of Linux")


@pytest.mark.parametrize(("first", "wanted"), [("SCHED_OTHER", "True SCHED_BATCH"), ("SCHED_IDLE", "False SCHED_IDLE")])
def test_threads_wait_their_turn_unless_somebody_has_said_otherwise(first, wanted):
    ran = subprocess.run(
        [sys.executable, "-c", ASKED.format(first=first)], capture_output=True, text=True, check=True, timeout=60
    )
    assert ran.stdout.strip() == wanted
