"""What ends a search: faults, interrupts, kills."""

import _thread
import json
import os
import signal
import subprocess
import threading
import time
from pathlib import Path

import pytest
from search_cases import (
    CLI,
    few_moves,  # noqa: F401 - for every test here
    searched,
    settings,
    tiny,
    zoo,
)

import hyperplace
from hyperplace import search
from hyperplace.search import Watch, best, coarse, fine, problem
from hyperplace.steps.symmetric import hybrid_local


@pytest.mark.timeout(60)
@pytest.mark.parametrize("k", [2, 8])
@pytest.mark.parametrize(
    ("module", "where"), [(best, "arrange"), (best, "counted"), (problem, "partition"), (coarse, "judged_partition")]
)
def test_a_fault_in_a_lane_reaches_the_caller(monkeypatch, module, where, k):
    def broken(*_arguments, **_options):
        raise RuntimeError(f"{where} is broken")

    monkeypatch.setattr(module, where, broken)
    with pytest.raises(RuntimeError, match=f"{where} is broken"):
        search.search(*tiny(), settings(k, imbalance=0.5), Watch(20))  # ends at the fault; a busy machine is slow


@pytest.mark.timeout(60)
def test_a_fault_in_the_progress_reaches_the_caller():
    def broken(_text):
        raise RuntimeError("no terminal")

    with pytest.raises(RuntimeError, match="no terminal"):
        search.search(*tiny(), settings(2, imbalance=0.5), Watch(5, on_progress=broken))


@pytest.mark.timeout(60)
def test_an_interrupt_between_the_fine_grids_returns_the_best_so_far(monkeypatch):
    monkeypatch.setattr(fine, "FINE_BLOCKS", (8,) * 50)
    pressed = threading.Event()

    def interrupt(text):
        if "(" not in text and not pressed.is_set():  # the coarse searches name who found it
            pressed.set()
            _thread.interrupt_main()

    try:
        _, found, _ = searched(zoo("lenet5"), settings(2, grain="fine"), on_progress=interrupt)
    except KeyboardInterrupt:  # would end the whole test run
        pytest.fail("the coarse placement was lost")
    assert found.is_cut_short


@pytest.mark.timeout(60)
@pytest.mark.parametrize("grain", ["coarse", "fine", "hybrid"])
def test_an_interrupt_among_the_grains_returns_the_best_of_each_so_far(monkeypatch, grain):
    """Pressed when a grain first has something to say."""
    pressed = threading.Event()
    monkeypatch.setattr(fine, "FINE_BLOCKS", (8,) * 50)
    monkeypatch.setattr(hybrid_local, "ALL_MOVES", 10**12)

    def interrupt(text):
        if text.startswith(grain) and not pressed.is_set():
            pressed.set()
            _thread.interrupt_main()

    try:
        found = search.search_grains(*zoo("lenet5"), settings(3, grain="auto"), Watch(on_progress=interrupt))
    except KeyboardInterrupt:  # would end the whole test run
        pytest.fail("what was found is lost")
    assert found["coarse"].layout.is_cut_short == (grain == "coarse")
    for other in ("fine", "hybrid"):
        assert "interrupted" in found[other] if grain == "coarse" else found[other].layout.is_cut_short


def start(folder, *options):
    command = (*CLI, "partition", "resnet50", "--k", "8", "--costs", "flops", "--time-limit", "120", *options)
    environment = {**os.environ, "XDG_CACHE_HOME": str(folder / "cache"), "TTY_COMPATIBLE": "1", "COLUMNS": "150"}
    with (folder / "progress").open("wb") as shown:
        return subprocess.Popen(
            [*command, "--out", str(folder / "out")],
            stdout=subprocess.PIPE,
            stderr=shown,
            env={**environment, "FORCE_COLOR": "1"},
        )


def wait_for_a_best(process, folder):
    """Wait until the progress line shows a placement; then the search is under way."""
    deadline = time.monotonic() + 60
    while b"best " not in (folder / "progress").read_bytes():
        assert process.poll() is None, (folder / "progress").read_text()
        assert time.monotonic() < deadline, (folder / "progress").read_text()
        time.sleep(0.2)
    time.sleep(1)


@pytest.mark.timeout(120)
def test_an_interrupt_writes_the_best_so_far(tmp_path):
    process = start(tmp_path, "--json")
    try:
        wait_for_a_best(process, tmp_path)
        signalled = time.monotonic()
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=30)
        seconds = time.monotonic() - signalled
    finally:
        process.kill()
    assert process.returncode == 0, (tmp_path / "progress").read_text()[-2000:]
    summary = json.loads(out)
    assert summary["is_cut_short"]
    assert summary["feasible"]
    plan = hyperplace.load_plan(summary["plan"])
    assert plan.metrics.is_cut_short
    assert plan.metrics.volume_bytes == summary["volume_bytes"] > 0
    assert seconds < 20, "it ends soon, also on a busy machine"


@pytest.mark.timeout(120)
def test_a_kill_leaves_nothing_half_written(tmp_path):
    process = start(tmp_path)
    try:
        wait_for_a_best(process, tmp_path)
    finally:
        process.kill()
        process.communicate(timeout=30)
    assert process.returncode == -signal.SIGKILL
    assert [path.name for path in Path(tmp_path / "out").rglob("*") if path.is_file()] == [".lock"]
