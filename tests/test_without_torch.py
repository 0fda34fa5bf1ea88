"""From a plan on nothing needs torch: lower, emit, read, schedule and dry-run where importing it fails."""

import pickle
import subprocess
import sys

import pytest
from capture_models import captured
from program_cases import planned

from hyperplace.steps.emit import emit
from hyperplace.steps.lower import lower
from hyperplace.steps.schedule import schedule
from hyperplace.steps.simulate import dry_run

SCRIPT = """
import pickle, sys
sys.modules["torch"] = None  # whoever imports it fails
from hyperplace.files.program import parse_program
from hyperplace.steps.emit import emit
from hyperplace.steps.lower import lower
from hyperplace.steps.schedule import schedule
from hyperplace.steps.simulate import dry_run
from hyperplace.values.schedule import parse_schedule

with open(sys.argv[1], "rb") as file:
    for graph, plan, text, order, run in pickle.load(file):
        program = lower(graph, plan)
        assert emit(program) == text
        assert parse_program(text) == program
        assert schedule(program, 3) == parse_schedule(order)
        assert repr(dry_run(program, schedule(program, 3))) == run
print("done")
"""


@pytest.mark.parametrize("grain", ["coarse", "fine", "hybrid"])
def test_all_steps_after_the_plan_run_without_torch(grain, tmp_path):
    cases = []
    for name in ("norms", "lstm", "several_inputs_and_outputs", "batch_into_rows"):
        graph = captured(name)
        plan = planned(graph, grain, 3, "scattered")
        program = lower(graph, plan)
        order = schedule(program, 3)
        cases.append((graph, plan, emit(program), str(order), repr(dry_run(program, order))))
    path = tmp_path / "cases.pickle"
    path.write_bytes(pickle.dumps(cases))
    ran = subprocess.run([sys.executable, "-c", SCRIPT, str(path)], capture_output=True, text=True, timeout=120)
    assert ran.stdout == "done\n", ran.stderr
