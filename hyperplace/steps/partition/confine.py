"""The first lines of the partitioner's process: set its limits, tie its life to its parent's, run the script.

Started by path, before any library is loaded: python -P confine.py MEMORY_BYTES PARENT_PID SCRIPT ARGUMENT...
"""

import ctypes
import os
import runpy
import signal
import sys

LOG_BYTES = 2**28  # a library that asks the same question for ever must not fill the disk
PR_SET_PDEATHSIG = 1


def main(memory_bytes: str, parent_pid: str, script: str, *arguments: str) -> None:
    _limit(int(memory_bytes))
    _die_with(int(parent_pid))
    sys.argv = [script, *arguments]
    runpy.run_path(script, run_name="__main__")


def _limit(memory_bytes: int) -> None:
    try:
        import resource
    except ImportError:  # not a Unix: the time limit alone has to do
        return
    for name, most in (("RLIMIT_AS", memory_bytes), ("RLIMIT_CORE", 0), ("RLIMIT_FSIZE", LOG_BYTES)):
        kind = getattr(resource, name)
        hard = resource.getrlimit(kind)[1]
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        try:
            resource.setrlimit(kind, (most, hard))
        except (OSError, ValueError) as fault:  # macOS refuses RLIMIT_AS
            print(f"no {name}: {fault}", file=sys.stderr)


def _die_with(parent_pid: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent_pid:  # the parent died before the call above
            os._exit(1)


if __name__ == "__main__":
    main(*sys.argv[1:])
