"""What reading a file may take, and what it must never do: 2 s of computing, 500 MiB, no code of the file's run."""

import os
import resource
import signal
import sys
import time
from contextlib import contextmanager
from pathlib import Path

LIMIT_S, LIMIT_MIB, HANG_S = 2.0, 500, 30
CALLS = ("os.system", "subprocess.Popen", "os.exec", "os.posix_spawn", "os.fork", "os.spawn")
EXECUTED = "executed"  # the file or folder that hostile files try to make

_seen: list[str] = []


class Hang(BaseException):
    """A call that does not come back; no `except Exception` holds it up."""


def judged(work, *, is_good):
    """Return what a call comes to, or the fault that it is, and the seconds of computing it took."""
    _forget_peak()
    _seen.clear()
    before, start = _peak_mib(), time.process_time()
    signal.setitimer(signal.ITIMER_REAL, HANG_S)
    try:
        found = work()
    except Hang:
        found = "HANG"
    except Exception as fault:
        found = f"OTHER {type(fault).__name__}: {str(fault)[:200]}"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    seconds, more = time.process_time() - start, _peak_mib() - before
    if is_good(found) and more > LIMIT_MIB:
        found = f"FAT by {more:.0f} MiB, {found}"
    if is_good(found) and seconds > LIMIT_S:
        found = f"SLOW {seconds:.1f} s, {found}"
    return (f"EXECUTED {_seen[0]}" if _seen else found), seconds


@contextmanager
def watched():
    """Let calls in the block be judged: a hang is ended, and what should not run is seen."""
    before = signal.signal(signal.SIGALRM, _hang)
    sys.addaudithook(_audit)
    try:
        yield
    finally:
        signal.signal(signal.SIGALRM, before)


def _hang(signum, frame):
    raise Hang


def _audit(event, arguments):
    """Note what only code of a file would do; a hook cannot be taken off again, so it must be cheap."""
    if event in CALLS or (event in ("os.mkdir", "open") and arguments[0] == EXECUTED):
        _seen.append(" ".join(map(str, (event, *arguments[:1]))))  # a fork has no arguments


def _forget_peak():
    if os.path.exists("/proc/self/clear_refs"):
        Path("/proc/self/clear_refs").write_text("5")


def _peak_mib():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
