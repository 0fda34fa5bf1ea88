"""Ask a partitioner in a process of its own, and believe nothing but a complete, valid answer.

The libraries exit, crash, hang and read stdin (tests/steps/partition/test_child.py provokes all of it). So the
process has no stdin, a session of its own, a limit of time and of memory; question and answer are files in a
temporary folder; whatever goes wrong becomes a PartitionerError with the end of what the process printed.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path

import numpy as np

from hyperplace.errors import PartitionerCrash, PartitionerError, PartitionerTimeout
from hyperplace.steps.partition.child import EXIT_MISSING_LIBRARY
from hyperplace.values.arrays import Ints

HERE = Path(__file__).parent
TAIL_CHARACTERS = 400
LOOK_S = 0.1  # between two looks at `stop`
OUT_OF_MEMORY = ("MemoryError", "bad_alloc", "annot allocate memory")


@dataclass(frozen=True)
class Question:
    """What child.py reads, field by field; one answer is wanted per seed."""

    solver: str
    num_parts: int
    offsets: Ints
    pins: Ints
    weights: Ints
    costs: Ints
    epsilon: float
    seeds: tuple[int, ...]
    configurations: tuple[str, ...] = ()  # the text of an ini file per seed, where the partitioner takes any
    starts: Ints = field(default_factory=lambda: np.zeros((0, 0), np.int64))  # a partition per seed, where it takes any
    num_threads: int = 1
    # The most weight of every part, where they differ; where it is empty the epsilon counts.
    limits: Ints = field(default_factory=lambda: np.zeros(0, np.int64))


@dataclass(frozen=True)
class Limits:
    """How long and how large the process may become, and what is asked now and then whether it is still wanted."""

    time_s: float
    memory_bytes: int = 8 * 2**30
    stop: Callable[[], bool] = lambda: False


def ask(question: Question, limits: Limits, script: Path = HERE / "child.py") -> Ints:
    """Return one row of parts per seed, or raise a PartitionerError."""
    try:
        _sweep()
        prefix = f"{_family()}{os.getpid()}-"
        with tempfile.TemporaryDirectory(prefix=prefix, ignore_cleanup_errors=True) as folder:
            request, answer, log = (Path(folder) / name for name in ("request.npz", "answer.npz", "log"))
            np.savez(request, **asdict(question))
            code = _run([str(script), str(request), str(answer)], log, limits)
            if code != 0:
                raise _death(question.solver, code, _tail(log), limits)
            return _read_answer(answer, question, log)
    except subprocess.TimeoutExpired:
        raise PartitionerTimeout(
            f"{question.solver} did not end within {limits.time_s:g} s at k={question.num_parts}; "
            "raise the time limit or lower --blocks"
        ) from None
    except OSError as fault:
        raise PartitionerError(f"the {question.solver} process could not be started: {fault}") from fault


@cache
def _sweep() -> None:
    """Remove, once, the folders that killed processes have left."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_family()}*"):
        pid = folder.name.removeprefix(_family()).partition("-")[0]
        if pid.isdecimal() and not _is_alive(int(pid)):
            shutil.rmtree(folder, ignore_errors=True)


@cache
def _family() -> str:
    """Return how the names of our folders begin: with who counts the processes, as containers may share a disk."""
    try:
        return f"hyperplace-{os.stat('/proc/self/ns/pid').st_ino}-"
    except OSError:
        return "hyperplace-"


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:  # another user's
        return True
    return True


def _run(arguments: list[str], log: Path, limits: Limits) -> int:
    """Run the script confined and return its exit code; nothing of it survives this call."""
    # -P keeps the script's folder, with a kahypar.py of ours, off the import path.
    confine = [sys.executable, "-P", "-X", "faulthandler", str(HERE / "confine.py")]
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*confine, str(limits.memory_bytes), str(os.getpid()), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,
        )
        try:
            return _wait(process, limits)
        finally:  # also after KeyboardInterrupt
            if process.poll() is None:
                _kill_group(process)


def _wait(process: subprocess.Popen[bytes], limits: Limits) -> int:
    end = time.monotonic() + limits.time_s
    while not limits.stop():
        left_s = end - time.monotonic()
        try:
            return process.wait(min(LOOK_S, max(0.0, left_s)))
        except subprocess.TimeoutExpired:
            if left_s <= LOOK_S:
                raise
    raise PartitionerError("the partitioner was not wanted any more")


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    if hasattr(os, "killpg"):
        os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()
    process.wait()


def _death(solver: str, code: int, tail: str, limits: Limits) -> PartitionerError:
    if code == EXIT_MISSING_LIBRARY:
        package = "mtkahypar" if solver == "vcycle" else solver
        return PartitionerError(f"{solver} cannot be loaded ({tail}); install it with: pip install {package}")
    how = f"died of signal {_signal_name(-code)}" if code < 0 else f"ended with exit code {code}"
    if any(sign in tail for sign in OUT_OF_MEMORY):
        how += f", out of memory (its limit is {limits.memory_bytes / 2**30:.3g} GiB)"
    return PartitionerCrash(f"the {solver} process {how}; {_printed(tail)}; try another seed or partitioner")


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)


def _printed(tail: str) -> str:
    return f"it printed last: {tail}" if tail else "it printed nothing"


def _tail(log: Path) -> str:
    """Return the end of what the process printed, on one line."""
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - TAIL_CHARACTERS))
        return " ".join(file.read().decode(errors="replace").split())


def _read_answer(path: Path, question: Question, log: Path) -> Ints:
    wanted = (len(question.seeds), len(question.weights))
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            rows = np.asarray(arrays["part_of"])
    except FileNotFoundError:
        fault = f"ended without an answer; {_printed(_tail(log))}"
    except (OSError, EOFError, KeyError, ValueError, zipfile.BadZipFile) as reason:
        fault = f"left an answer that cannot be read ({reason})"
    else:
        if rows.shape != wanted or rows.dtype.kind not in "iu":
            fault = f"answered with {rows.dtype} of shape {rows.shape}, wanted whole numbers of shape {wanted}"
        elif rows.min() < 0 or rows.max() >= question.num_parts:
            fault = f"answered with parts {rows.min()}..{rows.max()}, outside 0..{question.num_parts - 1}"
        else:
            return rows.astype(np.int64)
    raise PartitionerCrash(f"the {question.solver} process {fault}; try another seed or partitioner")
