"""Whatever the partitioner's process does, the caller gets a partition or a typed error, and soon."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from hyperplace.errors import PartitionerCrash, PartitionerError, PartitionerTimeout
from hyperplace.steps.partition import sandbox
from hyperplace.steps.partition.sandbox import Limits, Question, ask

pytestmark = pytest.mark.timeout(60)
FAULTY_CHILD = Path(__file__).parent / "faulty_child.py"


def question(solver: str, num_parts: int = 2) -> Question:
    return Question(
        solver=solver,
        num_parts=num_parts,
        offsets=np.array([0, 2, 4]),
        pins=np.array([0, 1, 2, 3]),
        weights=np.ones(4, np.int64),
        costs=np.ones(2, np.int64),
        epsilon=0.1,
        seeds=(0, 1),
    )


def ask_faulty(fault: str, **limits: float) -> np.ndarray:
    return ask(question(fault), Limits(**{"time_s": 20.0, **limits}), FAULTY_CHILD)


def test_a_good_answer_is_returned() -> None:
    assert np.array_equal(ask_faulty("good"), np.zeros((2, 4)))


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("exit 1", "exit code 1; .*I do not like this hypergraph"),
        ("exit 255", "exit code 255; .*I do not like"),
        ("exit 0", "ended without an answer; .*I do not like"),
        ("only temporary", "ended without an answer; it printed nothing"),
        ("segfault", "died of signal SIGSEGV"),
        ("abort", "died of signal SIGABRT"),
        ("memory", r"out of memory \(its limit is 1 GiB\)"),
        ("question", "exit code 1; .*EOFError"),
        ("truncated", "cannot be read"),
        ("empty file", "cannot be read"),
        ("pickle", "cannot be read"),
        ("other name", "cannot be read"),
        ("short", r"shape \(2, 3\), wanted whole numbers of shape \(2, 4\)"),
        ("too few rows", r"shape \(1, 4\)"),
        ("floats", "float64"),
        ("part too high", r"parts 99..99, outside 0..1"),
        ("part negative", r"parts -1..-1, outside 0..1"),
    ],
)
def test_every_fault_is_a_crash_with_the_reason(fault: str, message: str) -> None:
    with pytest.raises(PartitionerCrash, match=message):
        ask_faulty(fault, memory_bytes=2**30)


def test_a_process_that_hangs_is_ended_with_all_it_started(tmp_path: Path) -> None:
    begin = time.monotonic()
    with pytest.raises(PartitionerTimeout, match="did not end within 2 s at k=2"):
        ask_faulty(f"sleep {tmp_path / 'pids'}", time_s=2)
    assert time.monotonic() - begin < 15
    assert_gone(tmp_path / "pids")


def test_a_process_that_is_not_wanted_any_more_is_ended_with_all_it_started(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    with pytest.raises(PartitionerError, match="not wanted any more"):
        ask(
            question(f"sleep {pids}"),
            Limits(50.0, stop=lambda: pids.exists() and "\n" in pids.read_text()),
            FAULTY_CHILD,
        )
    assert_gone(pids)


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel ties the two lives together on Linux only")
def test_the_process_dies_with_its_parent(tmp_path: Path) -> None:
    parent = start_parent(tmp_path)
    parent.kill()
    parent.communicate(timeout=20)
    assert_gone(tmp_path / "pids", only_first=True)


def test_an_interrupt_of_the_parent_ends_the_process_and_all_it_started(tmp_path: Path) -> None:
    parent = start_parent(tmp_path)
    parent.send_signal(signal.SIGINT)
    _, errors = parent.communicate(timeout=20)
    assert "KeyboardInterrupt" in errors
    assert_gone(tmp_path / "pids")


def test_no_temporary_file_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    ask_faulty("good")
    with pytest.raises(PartitionerCrash):
        ask_faulty("exit 1")
    assert list(tmp_path.iterdir()) == []


def test_a_missing_library_is_named_with_the_command_that_installs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "kahypar.py").write_text("raise ImportError('no such wheel')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(PartitionerError, match=r"no such wheel.*pip install kahypar"):
        ask(question("kahypar"), Limits(20.0))


def test_the_real_child_never_loads_torch_or_this_package() -> None:
    """It is started by path with -P: the kahypar.py beside it must not hide the library."""
    script = f"import runpy, sys; runpy.run_path({str(sandbox.HERE / 'child.py')!r}); print(sorted(sys.modules))"
    modules = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert "'numpy'" in modules
    assert "'torch'" not in modules
    assert "'hyperplace'" not in modules


def start_parent(folder: Path) -> subprocess.Popen[str]:
    """Start a process that asks a child that sleeps, and return once the child sleeps."""
    script = (
        f"import sys; sys.path.insert(0, {str(FAULTY_CHILD.parent)!r})\n"
        "from test_child import ask_faulty\n"
        f"ask_faulty('sleep {folder / 'pids'}', time_s=50)\n"
    )
    # A parent that is killed outright leaves its temporary folder behind: in a folder that pytest clears.
    environment = {**os.environ, "PYTHONPATH": str(Path(sandbox.__file__).parents[3]), "TMPDIR": str(folder)}
    parent = subprocess.Popen(
        [sys.executable, "-c", script], stderr=subprocess.PIPE, text=True, env=environment, start_new_session=True
    )
    while not (folder / "pids").exists() or not (folder / "pids").read_text().endswith("\n"):
        assert parent.poll() is None, parent.stderr and parent.stderr.read()
        time.sleep(0.05)
    return parent


def assert_gone(file: Path, only_first: bool = False) -> None:
    pids = [int(pid) for pid in file.read_text().split()]
    end = time.monotonic() + 10
    while alive := [pid for pid in pids[: 1 if only_first else 2] if is_running(pid)]:
        assert time.monotonic() < end, f"still running: {alive}"
        time.sleep(0.05)
    for pid in pids:  # the grandchild of a parent that was killed outright is nobody's
        if is_running(pid):
            os.kill(pid, signal.SIGKILL)


def is_running(pid: int) -> bool:
    """Return whether the process exists and is not a zombie waiting for its parent."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    status = Path(f"/proc/{pid}/stat")
    return not status.exists() or status.read_text().rpartition(")")[2].split()[0] != "Z"
