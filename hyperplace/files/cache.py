"""Where things are kept that can be made again."""

import os
from pathlib import Path


def cache_folder() -> Path | None:
    """Return $XDG_CACHE_HOME/hyperplace, or the one in ~/.cache; None for who has no home."""
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hyperplace"
    except RuntimeError:  # Path.home's word for it
        return None
