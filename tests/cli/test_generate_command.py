"""`hyperplace generate`: a plan file in, a program out that runs; nothing a plan names is ever run."""

import subprocess
import sys
from pathlib import Path

import pytest

import hyperplace
from hyperplace.models import load_model

MINE = "from torch import nn\ndef net():\n    return nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 8, 3))\n"


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    loaded = load_model("lenet5")
    path = tmp_path / "plan.json"
    made = hyperplace.place(loaded.module, loaded.sample, k=2, partitioner="kahypar", batch=4)
    hyperplace.save_plan(made, path)
    # As `hyperplace partition lenet5` writes it; the API knows only the class.
    path.write_text(path.read_text().replace('"model": "Sequential"', '"model": "lenet5"'))
    return path


def test_the_program_is_written_beside_the_plan_and_runs(run, plan: Path) -> None:
    ran = run("generate", plan)
    assert (ran.code, ran.out) == (0, ""), ran.err
    program = plan.with_name("lenet5_k2.py")
    assert f"{program}: 2 parts" in ran.err
    ends = subprocess.run([sys.executable, program, "--steps", "2"], capture_output=True, text=True, timeout=120)
    assert ends.returncode == 0, ends.stderr
    assert "in 2 mini-batches" in ends.stdout


def test_same_plan_same_text(run, plan: Path, tmp_path: Path) -> None:
    for name in ("a.py", "b.py"):
        assert run("generate", plan, "-o", tmp_path / name, "--input", "1x32x32").code == 0
    assert (tmp_path / "a.py").read_bytes() == (tmp_path / "b.py").read_bytes()


def test_a_model_of_ones_own_must_be_given(run, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(MINE)
    spec, out = f"{tmp_path / 'mine.py'}:net", tmp_path / "out"
    options = ("--input", "3x16x16", "--k", 2, "--grain", "coarse", "--costs", "flops", "--out", out)
    assert run("partition", spec, *options).code == 0
    refused = run("generate", out / "plan.json")
    assert refused.code == 2
    assert "nothing that a file names is imported or run by itself; give --model" in refused.err
    assert run("generate", out / "plan.json", "--model", spec).code == 0
    assert (out / "mine_net_k2.py").exists()


def test_a_name_in_a_plan_is_never_imported(run, plan: Path, tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "evil.py").write_text("raise SystemExit('imported')")
    monkeypatch.chdir(tmp_path)
    plan.write_text(plan.read_text().replace('"lenet5"', '"evil:net"'))
    ran = run("generate", plan)
    assert ran.code == 2
    assert "is not in the zoo" in ran.err


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (("--model", "blocksnet"), 2, "blocksnet reads images of 3 channels"),
        (("--input", "1x28x28"), 2, "was made for --input 1x32x32"),
        (("-o", "plan.json/program.py"), 1, "is not a directory"),
    ],
)
def test_one_line_and_no_program(run, plan: Path, monkeypatch, options, code, words) -> None:
    monkeypatch.chdir(plan.parent)
    ran = run("generate", "plan.json", *options)
    assert (ran.code, ran.out) == (code, "")
    assert ran.err.startswith("error: ")
    assert words in ran.err
    assert not list(plan.parent.rglob("*.py"))


def test_a_plan_of_another_model_and_a_broken_plan(run, plan: Path) -> None:
    text = plan.read_text()
    plan.write_text(text.replace('"name": "features.3"', '"name": "features.9"', 1))
    other = run("generate", plan)
    assert other.code in (1, 2)
    assert other.err.startswith("error: ")
    plan.write_text(text[:200])
    broken = run("generate", plan)
    assert broken.code == 1
    assert "not a plan file, or cut short" in broken.err
    missing = run("generate", plan.with_name("nowhere.json"))
    assert missing.code == 1
    assert "nowhere.json" in missing.err
