"""Compile a local search before it is wanted, in a process of its own: that takes many seconds, once per version.

A thread that compiles holds Python's lock and cannot be ended. A process does neither; where the deadline comes first
the search is left out, and the process ends its work for the searches to come.
"""

import subprocess
import sys
import threading
from pathlib import Path

from hyperplace.search.race import Stop

LOOK_S = 0.05
ROOT = Path(__file__).parent.parent.parent
MODULES = {
    "local": "hyperplace.steps.symmetric.local",
    "hybrid": "hyperplace.steps.symmetric.hybrid_local",
    "polish": "hyperplace.steps.partition.polish",
}
SCRIPT = (
    "import sys; sys.path.insert(0, {root!r}); from {module} import warm_up; from hyperplace.machine_code import keep; "
    "warm_up(); keep({search!r})"
)

_lock = threading.Lock()
_processes: dict[str, "subprocess.Popen[bytes]"] = {}


def is_compiled(search: str, stop: Stop) -> bool:
    """Say whether a search can run at once, waiting for its machine code as long as there is time."""
    from hyperplace.machine_code import is_kept

    if is_kept(search):
        return True
    process = _compiler(search)
    while process.poll() is None:
        if stop.wait(LOOK_S):
            stop.whole.leave_out("compiling the searches (once per version; it goes on in the background)")
            return False
    return True  # where that failed, as without a place to keep it, the search compiles for itself


def _compiler(search: str) -> "subprocess.Popen[bytes]":
    with _lock:
        if search not in _processes:
            script = SCRIPT.format(root=str(ROOT), module=MODULES[search], search=search)
            _processes[search] = subprocess.Popen(
                [sys.executable, "-c", script],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        return _processes[search]
