"""The files of a run, each written whole or not at all."""

import io
import os
from pathlib import Path
from typing import IO, TYPE_CHECKING

from hyperplace.errors import FileError
from hyperplace.files.write import shown, write_bytes

if TYPE_CHECKING:
    from matplotlib.figure import Figure


LOCK = ".lock"
_held: list[IO[str]] = []  # open as long as the process lives: closing a file gives its lock away


def check_folder(folder: Path) -> None:
    """Refuse a folder that cannot be made or written before the work starts rather than after it."""
    present = folder
    try:
        os.fspath(folder).encode()
        folder.exists()  # a name too long is said here, at the latest
        while not present.exists() and present != present.parent:
            present = present.parent
    except (OSError, UnicodeEncodeError, ValueError) as fault:
        reason = (fault.strerror or "").lower() if isinstance(fault, OSError) else "its name is no text"
        raise FileError(f"cannot write to {shown(folder)}: {reason}; choose another --out") from None
    if not present.is_dir():
        raise FileError(f"cannot write to {folder}: {present} is not a folder; choose another --out")
    if not os.access(present, os.W_OK | os.X_OK):
        raise FileError(f"cannot write to {folder}: no permission for {present}; choose another --out")


def hold_folder(folder: Path) -> None:
    """Keep the folder for this process until it ends, or say that another one has it."""
    try:
        import fcntl
    except ImportError:  # not a Unix: nobody is held off
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / LOCK).open("a")
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.close()
        raise FileError(f"another training writes to {folder}/ now; wait for it, or choose another --out") from None
    except OSError as fault:
        raise FileError(
            f"cannot write to {folder}: {(fault.strerror or str(fault)).lower()}; choose another --out"
        ) from None
    _held.append(lock)


def write_figure(path: Path, figure: "Figure") -> None:
    """Write the figure as PNG; the same figure gives the same bytes."""
    image = io.BytesIO()
    figure.savefig(image, format="png", dpi=120, metadata={"Software": None})
    write_bytes(path, image.getvalue())
