"""The composer: the one place where all steps come together, and the only one the command line knows.

The steps' order is in planning.py (a model to its plan), comparing.py (plans side by side) and compiling.py (a plan to
the program that runs it). Nothing below imports any of these.
"""

from pathlib import Path

from hyperplace.allocator import keep_memory
from hyperplace.by_time.bound import time_bound
from hyperplace.by_time.search import TimePlan, methods, place_by_time, run_by_time, sweep
from hyperplace.by_time.timing import FlowWish, forecast, outlook, probe
from hyperplace.comparing import baselines, compare, grain_rows
from hyperplace.compiling import (
    check_plan,
    compile,
    generate,
    load_checkpoint,
    lower,
    micro_batches_for,
    run_memory,
    runnable,
    save_checkpoint,
)
from hyperplace.explaining import explain, judge_on
from hyperplace.files.cluster import load_cluster
from hyperplace.files.plan import parse_plan, plan_text
from hyperplace.files.program import parse_program
from hyperplace.files.write import read_text, write_text
from hyperplace.placing import place
from hyperplace.planning import Placement, capture, graph_for, partition, place_graph, profile, run, settled
from hyperplace.processor import take_turns
from hyperplace.replanning import corrected
from hyperplace.search import Watch
from hyperplace.steps.build import build
from hyperplace.steps.emit import emit
from hyperplace.steps.schedule import schedule
from hyperplace.steps.simulate import averaged_epoch_s, dry_run, memory, predict, simulate
from hyperplace.values.comparison import METHOD_NAMES
from hyperplace.values.plan import Plan
from hyperplace.values.program import Program

__all__ = [
    "METHOD_NAMES",
    "FlowWish",
    "Placement",
    "TimePlan",
    "Watch",
    "averaged_epoch_s",
    "baselines",
    "build",
    "capture",
    "check_plan",
    "compare",
    "compile",
    "corrected",
    "dry_run",
    "emit",
    "explain",
    "forecast",
    "generate",
    "grain_rows",
    "graph_for",
    "judge_on",
    "keep_memory",
    "load_checkpoint",
    "load_cluster",
    "load_plan",
    "load_program",
    "lower",
    "memory",
    "methods",
    "micro_batches_for",
    "outlook",
    "partition",
    "place",
    "place_by_time",
    "place_graph",
    "predict",
    "probe",
    "profile",
    "run",
    "run_by_time",
    "run_memory",
    "runnable",
    "save_checkpoint",
    "save_plan",
    "schedule",
    "settled",
    "simulate",
    "sweep",
    "take_turns",
    "time_bound",
]


def save_plan(plan: Plan, path: str | Path) -> None:
    """Write the plan as JSON; the file appears whole or not at all."""
    write_text(path, plan_text(plan))


def load_plan(path: str | Path) -> Plan:
    """Read a plan file; a broken one gives an error that says where. Nothing in it is executed."""
    return parse_plan(read_text(path), str(path))


def load_program(text: str) -> Program:
    """Return the program that a text is, which `emit` made; nothing in it is executed."""
    return parse_program(text)
