"""The files of a run, each written whole or not at all."""

import io
import os
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING

from hyperplace.errors import FileError
from hyperplace.files.write import shown, write_bytes, write_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from hyperplace.report import Document

LOCK = ".lock"


def check_folder(folder: Path, option: str = "--out") -> None:
    """Refuse a folder that cannot be made or written before the work starts rather than after it."""
    present = folder
    try:
        os.fspath(folder).encode()
        folder.exists()  # a name too long is said here, at the latest
        while not present.exists() and present != present.parent:
            present = present.parent
    except (OSError, UnicodeEncodeError, ValueError) as fault:
        reason = (fault.strerror or "").lower() if isinstance(fault, OSError) else "its name is no text"
        raise FileError(f"cannot write to {shown(folder)}: {reason}; choose another {option}") from None
    if not present.is_dir():
        raise FileError(f"cannot write to {folder}: {present} is not a folder; choose another {option}")
    if not os.access(present, os.W_OK | os.X_OK):
        raise FileError(f"cannot write to {folder}: no permission for {present}; choose another {option}")


def check_free(folder: Path) -> None:
    """Refuse a folder that another process holds."""
    if (folder / LOCK).exists():
        with held(folder):
            pass


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Keep the folder for this process while the block runs, or say that another one has it.

    Folders that are made for it and stay empty are gone afterwards.
    """
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    with _locked(folder):
        try:
            yield
        finally:
            with suppress(OSError):
                (folder / LOCK).unlink()
                for path in missing:
                    path.rmdir()


def _locked(folder: Path) -> IO[str]:
    """Return a file whose closing gives the folder away."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / LOCK).open("a")
    except OSError as fault:
        reason = (fault.strerror or str(fault)).lower()
        raise FileError(f"cannot write to {folder}: {reason}; choose another --out") from None
    try:
        import fcntl

        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except ImportError:  # not a Unix: nobody is held off
        pass
    except OSError:
        lock.close()
        raise FileError(f"another command writes to {folder}/ now; wait for it, or choose another --out") from None
    return lock


def write_document(
    folder: Path, name: str, document: "Document", *, text_width: int | None = None, html: bool = False
) -> tuple[str, ...]:
    """Write the document as Markdown and CSV with its figures.

    Where a width is given also as a terminal shows it, and where `html` is asked for as a page.
    """
    from hyperplace.report import csv_text, markdown_text, plain_text

    texts = {f"{name}.txt": plain_text(document, text_width)} if text_width else {}
    texts |= {f"{name}.md": markdown_text(document, command()), f"{name}.csv": csv_text(document)}
    texts |= {f"{name}.html": page_of(document, name)} if html else {}
    for file, text in texts.items():
        write_text(folder / file, text)
    for figure in document.figures:
        write_figure(folder / f"{figure.name}.png", figure.draw())
    return (*texts, *(f"{figure.name}.png" for figure in document.figures))


def page_of(document: "Document", name: str) -> str:
    """Return the document as a page; its title is what is said first."""
    from hyperplace.report.page import document_page

    title = document.head[0].text if document.head else name
    return document_page(document, title, command())


def command() -> str:
    """Return the command that this process runs, as it can be typed again."""
    return shlex.join(["hyperplace", *sys.argv[1:]])


def write_figure(path: Path, figure: "Figure") -> None:
    """Write the figure as PNG; the same figure gives the same bytes."""
    image = io.BytesIO()
    figure.savefig(image, format="png", dpi=120, metadata={"Software": None})
    write_bytes(path, image.getvalue())
