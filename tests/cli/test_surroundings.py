"""Commands in bad surroundings: a full disk, a closed pipe, no home, another command in the same folder."""

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from hyperplace.api import load_plan
from hyperplace.files.profile import parse_profile

CLI = (sys.executable, "-c", "from hyperplace.cli import main; main()")
PARTITION = ("partition", "lenet5", "--k", "2", "--grain", "coarse", "--partitioner", "horizontal")
HOMELESS = (sys.executable, "-c", "import pwd; pwd.getpwuid = {}.__getitem__; from hyperplace.cli import main; main()")


def started(*words, program=CLI, **more):
    return subprocess.Popen(
        [*program, *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more
    )


def ended(process):
    """Return the exit code and what was said on stderr, which is never a traceback."""
    _, said = process.communicate(timeout=120)
    assert "Traceback" not in said, said
    return process.returncode, said


def small_files():
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))


@pytest.mark.timeout(180)
def test_two_commands_in_one_folder(tmp_path):
    """Files of two runs lay side by side: the plan of one, the vector of the other."""
    both = [started(*PARTITION, "--seed", seed, "--out", tmp_path / "out") for seed in (1, 2)]
    codes = [ended(process) for process in both]
    refused = [said for code, said in codes if code]
    assert len(refused) <= 1  # one may have begun after the other had ended
    assert all(said.startswith("error: another command writes to") and said.count("\n") == 1 for said in refused)
    plan = load_plan(tmp_path / "out" / "plan.json")
    assert plan.settings.k == 2
    assert not list((tmp_path / "out").glob(".*"))


@pytest.mark.timeout(180)
def test_two_commands_with_one_profile_cache(tmp_path):
    environment = os.environ | {"XDG_CACHE_HOME": str(tmp_path)}
    both = [started("profile", "lenet5", "--batch", "2", env=environment, cwd=tmp_path) for _ in range(2)]
    assert [ended(process)[0] for process in both] == [0, 0]
    (kept,) = (tmp_path / "hyperplace" / "profiles").iterdir()
    assert parse_profile(kept.read_text(), "profile").batch == 2


@pytest.mark.timeout(180)
@pytest.mark.parametrize(
    "words", [PARTITION, ("train", "lenet5", "--data", "synthetic", "--images", "64", "--epochs", "1")]
)
def test_a_full_disk(tmp_path, words):
    """No file may have more than 1000 bytes: what a full disk does, without one."""
    code, said = ended(started(*words, "--out", tmp_path / "out", preexec_fn=small_files))
    assert code == 1
    lines = [line for line in said.split("\n") if line.startswith("error: ")]
    assert len(lines) == 1, said
    assert "file too large" in lines[0]
    assert all(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file() and path.name != ".lock")
    assert not list(tmp_path.rglob("*.tmp"))


@pytest.mark.timeout(180)
def test_a_closed_pipe(tmp_path):
    process = started(*PARTITION, "--out", tmp_path / "out")
    process.stdout.close()
    said = process.stderr.read()
    process.stderr.close()
    assert process.wait(120) in (0, 1)
    assert "Traceback" not in said
    assert load_plan(tmp_path / "out" / "plan.json").settings.k == 2


@pytest.mark.timeout(180)
@pytest.mark.parametrize("program", [CLI, HOMELESS])
def test_no_home_and_no_place_for_a_cache(tmp_path, program):
    """Path.home raised RuntimeError; a cache that cannot be written is done without."""
    nowhere = {} if program is HOMELESS else {"HOME": "/dev/null", "XDG_CACHE_HOME": "/dev/null/x"}
    environment = {name: word for name, word in os.environ.items() if name not in ("HOME", "XDG_CACHE_HOME")} | nowhere
    process = started("profile", "lenet5", "--batch", "2", program=program, env=environment, cwd=tmp_path)
    code, said = ended(process)
    assert code == 0, said
    # The local search compiles, and has nowhere to keep that: once is enough of those twenty seconds.
    words = PARTITION if program is HOMELESS else (*PARTITION[:-1], "local")
    code, said = ended(started(*words, "--out", "out", program=program, env=environment, cwd=tmp_path))
    assert code == 0, said
    assert load_plan(tmp_path / "out" / "plan.json").settings.k == 2


def test_where_machine_code_cannot_be_kept(monkeypatch, tmp_path):
    """numba refused to compile at all without a place for its cache."""
    from hyperplace import machine_code

    monkeypatch.setattr(machine_code, "HERE", Path("/dev/null"))
    monkeypatch.setenv("XDG_CACHE_HOME", "/dev/null/x")
    monkeypatch.setattr(machine_code, "folder", machine_code.folder.__wrapped__)
    assert machine_code.folder() is None
    assert machine_code.entry()(lambda number: number + 1)(1) == 2
    machine_code.keep("search")
    assert not machine_code.is_kept("search")
