"""The public names are complete, and importing them costs nothing."""

import subprocess
import sys

import hyperplace


def test_every_public_name_resolves_and_has_a_docstring() -> None:
    wanted = {"capture", "profile", "build", "partition", "place", "compare", "generate", "compile"}
    wanted |= {"load_plan", "save_plan", "load_checkpoint", "save_checkpoint"}
    wanted |= {"lower", "emit", "load_program", "schedule", "dry_run", "memory"}
    wanted |= {"load_cluster", "probe", "simulate", "predict", "progress", "keep_memory", "take_turns"}
    assert set(hyperplace.__all__) == wanted
    for name in hyperplace.__all__:
        assert getattr(hyperplace, name).__doc__


def test_importing_hyperplace_and_its_command_line_does_not_import_torch() -> None:
    code = "import sys, hyperplace, hyperplace.cli, hyperplace.models; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0
