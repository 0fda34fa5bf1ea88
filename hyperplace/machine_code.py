"""How the inner loops of the searches are compiled by numba, and where their machine code is kept.

numba's own cache looks at the file of a function only, not at what that file imports. So the folder has in its name the
hash of all source that is compiled and of who compiles it: code of other source, or of another numba, is never found.
It lies beside the byte code of the package, or in the user's cache where that cannot be written.
"""

import hashlib
import os
import sys
import threading
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import numba

HERE = Path(__file__).parent
SOURCES = ("machine_code.py", "steps/symmetric/*.py", "steps/partition/polish.py", "steps/simulate/*.py")

_lock = threading.Lock()

# A problem and its state are some 140 words to pass on, which costs more than most small functions do: so these go into
# their caller. Only what Python calls is cached and gets wrappers; to build them for all takes seconds.
inlined = partial(numba.njit, error_model="numpy", forceinline=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)
inner = partial(numba.njit, error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True)


def entry(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Return the decorator of what Python calls; its machine code is kept."""

    def decorate(function: Callable[..., Any]) -> Any:
        with _lock:  # numba reads the place from a global, while several threads may be loading searches
            usual = vars(numba.config)["CACHE_DIR"]
            vars(numba.config)["CACHE_DIR"] = str(folder())
            try:
                return numba.njit(error_model="numpy", cache=True, **options)(function)
            finally:
                vars(numba.config)["CACHE_DIR"] = usual

    return decorate


@cache
def folder() -> Path:
    """Return the folder of the machine code of this very source, by this very compiler."""
    mark = hashlib.sha256(f"numba {numba.__version__}, python {sys.version}".encode())
    for path in (path for pattern in SOURCES for path in sorted(HERE.glob(pattern))):
        mark.update(path.read_bytes())
    name = f"compiled-{mark.hexdigest()[:16]}"
    beside = HERE / "__pycache__"
    try:
        (beside / name).mkdir(parents=True, exist_ok=True)
        if os.access(beside / name, os.W_OK | os.X_OK):
            return beside / name
    except OSError:
        pass
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hyperplace" / name


def is_kept(search: str) -> bool:
    """Say whether a search was compiled before."""
    return _mark(search).exists()


def keep(search: str) -> None:
    """Note that the machine code of a search is complete."""
    _mark(search).parent.mkdir(parents=True, exist_ok=True)
    _mark(search).touch()


def _mark(search: str) -> Path:
    return folder() / f"{search}.complete"
