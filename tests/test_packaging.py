"""A wheel holds everything: installed into an environment of its own, the command runs from anywhere."""

import os
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def succeed(*command: object, **options) -> str:
    ran = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=240, **options)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def test_every_package_is_in_the_wheel() -> None:
    there = {".".join(path.parent.relative_to(ROOT).parts) for path in (ROOT / "hyperplace").rglob("__init__.py")}
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    assert sorted(listed) == sorted({*there, "hyperplace.cli", "hyperplace.models"})


@pytest.mark.skipif(os.name != "posix", reason="looks for bin/")
def test_the_wheel_runs_from_elsewhere(tmp_path: Path) -> None:
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "-q")
    succeed(*pip, "wheel", "--no-deps", "--no-build-isolation", "-w", tmp_path / "dist", ROOT)
    (wheel,) = (tmp_path / "dist").glob("hyperplace-*.whl")
    succeed(sys.executable, "-m", "venv", tmp_path / "env")
    packages = next((tmp_path / "env").glob("lib/python*/site-packages"))
    # Our dependencies are large: borrow the ones of this environment. A path file does not run theirs, so the
    # editable install of this tree stays out.
    (packages / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    succeed(tmp_path / "env/bin/python", "-m", "pip", "-q", "install", "--no-deps", "--no-index", wheel)
    where = succeed(tmp_path / "env/bin/python", "-c", "import hyperplace; print(hyperplace.__file__)", cwd=tmp_path)
    assert where.startswith(str(packages))
    command = (tmp_path / "env/bin/hyperplace", "partition", "lenet5", "--k", "2", "--costs", "flops")
    succeed(*command, "--grain", "coarse", cwd=tmp_path)  # whose search compiles nothing for so few parts
    written = {path.name for path in (tmp_path / "results/lenet5-k2-coarse").iterdir()}
    assert written == {"plan.json", "plan.png", "partition.txt", "hypergraph.patoh"}
