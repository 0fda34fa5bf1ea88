"""How the inner loops of the searches are compiled by numba, and where their machine code is kept.

numba's own cache looks at the file of a function only, not at what that file imports. So the folder has in its name the
hash of all source that is compiled and of who compiles it: code of other source, or of another numba, is never found.
It lies beside the byte code of the package, or in the user's cache where that cannot be written.
"""

import hashlib
import sys
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import Any

import numba

from hyperplace.files.cache import cache_folder

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
            usual, place = vars(numba.config)["CACHE_DIR"], folder()
            vars(numba.config)["CACHE_DIR"] = str(place or "")
            try:
                return numba.njit(error_model="numpy", cache=place is not None, **options)(function)
            finally:
                vars(numba.config)["CACHE_DIR"] = usual

    return decorate


@cache
def folder() -> Path | None:
    """Return the folder of the machine code of this very source, by this very compiler; None where none can be made."""
    mark = hashlib.sha256(f"numba {numba.__version__}, python {sys.version}".encode())
    for path in (path for pattern in SOURCES for path in sorted(HERE.glob(pattern))):
        mark.update(path.read_bytes())
    name = f"compiled-{mark.hexdigest()[:16]}"
    for base in (HERE / "__pycache__", cache_folder()):
        with suppress(OSError):
            if base:
                (base / name).mkdir(parents=True, exist_ok=True)
                tempfile.TemporaryFile(dir=base / name).close()  # root may write where nothing can be written
                return base / name
    return None


def is_kept(search: str) -> bool:
    """Say whether a search was compiled before."""
    place = folder()
    return place is not None and (place / f"{search}.complete").exists()


def keep(search: str) -> None:
    """Note that the machine code of a search is complete."""
    if place := folder():
        (place / f"{search}.complete").touch()
