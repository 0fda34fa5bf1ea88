"""Text and bytes to and from disk: a file is written whole or not at all, and every fault names its path."""

import os
import secrets
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from hyperplace.errors import FileError

Pathlike = str | os.PathLike[str]
MOST_TEXT_BYTES = 2**28  # of hypergraphs and timelines; whatever else we read is far smaller


def write_text(path: Pathlike, text: str | Iterable[str]) -> None:
    """Write text, or chunks of text, as UTF-8 with the newlines it has; missing folders are made."""
    chunks = (text,) if isinstance(text, str) else text
    _write(Path(path), (chunk.encode() for chunk in chunks))


def write_bytes(path: Pathlike, data: bytes) -> None:
    """Write bytes; missing folders are made."""
    _write(Path(path), (data,))


@contextmanager
def open_whole(path: Pathlike) -> Iterator[BinaryIO]:
    """Open a file for writing that appears under its name only when the block ends well; missing folders are made."""
    try:
        target = _target(Path(path))
        target.parent.mkdir(parents=True, exist_ok=True)
        with _temporary(target) as file:
            yield file
    except (OSError, ValueError) as error:
        raise FileError(f"cannot write {shown(path)}: {_reason(error)}; choose another place") from error


def read_text(path: Pathlike, most_bytes: int = MOST_TEXT_BYTES) -> str:
    """Return the text of a UTF-8 file, with every newline as `\\n` and without a byte order mark.

    Its size is looked at before it is read; of a pipe or device, which has none, no more is read than it may have.
    """
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            content = file.read(most_bytes + 1) if size <= most_bytes else b""
    except (OSError, ValueError) as error:
        raise FileError(f"cannot read {shown(path)}: {_reason(error)}; check the path") from error
    if max(size, len(content)) > most_bytes:
        raise FileError(f"{shown(path)} has more than {most_bytes >> 20} MiB; is it another kind of file?")
    try:
        return content.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError as error:
        raise FileError(
            f"cannot read {path}: it is not UTF-8 text, see byte {error.start}; is it another kind of file?"
        ) from error


def _write(path: Path, chunks: Iterable[bytes]) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and not path.is_file():
            _write_through(path, chunks)
        else:
            _write_beside(path, chunks)
    except (OSError, UnicodeEncodeError) as error:
        raise FileError(f"cannot write {shown(path)}: {_reason(error)}; choose another --out") from error


def _write_through(path: Path, chunks: Iterable[bytes]) -> None:
    """Write into a device or a pipe: replacing /dev/null by a file would be a disaster for root."""
    with open(path, "wb") as file:
        file.writelines(chunks)


def _write_beside(path: Path, chunks: Iterable[bytes]) -> None:
    """Write under a temporary name in the same folder, then rename."""
    with _temporary(_target(path)) as file:
        file.writelines(chunks)


def _target(path: Path) -> Path:
    """Return what to replace: a link stays one within its folder, but never leads out of it."""
    folder, real = Path(os.path.realpath(path.parent)), Path(os.path.realpath(path))
    return real if real.is_relative_to(folder) else folder / path.name


@contextmanager
def _temporary(target: Path) -> Iterator[BinaryIO]:
    # Not the tempfile module: its files are for their owner only, and would stay so under the final name.
    temporary = target.with_name(f".hyperplace-{os.getpid()}-{secrets.token_hex(8)}.tmp")
    try:
        with open(temporary, "x+b") as file:
            with suppress(FileNotFoundError):  # who may read the old file may read the new one, and nobody else
                os.fchmod(file.fileno(), stat.S_IMODE(target.lstat().st_mode) if not target.is_symlink() else 0o600)
            yield file
        os.replace(temporary, target)
    finally:
        with suppress(OSError):
            temporary.unlink()


def shown(path: Pathlike) -> str:
    """Return a path as it can be printed: not every name on a disk is text, nor short."""
    text = os.fspath(path).encode(errors="backslashreplace").decode()
    return text if len(text) <= 200 else f"{text[:100]}...{text[-50:]}"


def remove_leftovers(folder: Pathlike) -> None:
    """Remove the temporary files of processes that were killed while they wrote into a folder."""
    for path in Path(folder).glob(".hyperplace-*-*.tmp"):
        number = path.name.split("-")[1]
        if number.isdigit() and not _is_alive(int(number)):
            with suppress(OSError):
                path.unlink()


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):  # somebody else's, or no process at all
        return True
    return True


def _reason(error: OSError | ValueError) -> str:
    if isinstance(error, ValueError):
        return "its name is no text"
    if isinstance(error, FileExistsError):  # mkdir's answer where a folder of the path is a file
        return f"{error.filename} is not a directory"
    return (error.strerror or str(error)).lower()
