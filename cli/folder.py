"""The files of a run, each written whole or not at all."""

import io
import os
from pathlib import Path
from typing import TYPE_CHECKING

from hyperplace.errors import FileError
from hyperplace.files.write import write_bytes

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def check_folder(folder: Path) -> None:
    """Refuse a folder that cannot be made or written before the work starts rather than after it."""
    present = folder
    while not present.exists() and present != present.parent:
        present = present.parent
    if not present.is_dir():
        raise FileError(f"cannot write to {folder}: {present} is not a folder; choose another --out")
    if not os.access(present, os.W_OK | os.X_OK):
        raise FileError(f"cannot write to {folder}: no permission for {present}; choose another --out")


def write_figure(path: Path, figure: "Figure") -> None:
    """Write the figure as PNG; the same figure gives the same bytes."""
    image = io.BytesIO()
    figure.savefig(image, format="png", dpi=120, metadata={"Software": None})
    write_bytes(path, image.getvalue())
