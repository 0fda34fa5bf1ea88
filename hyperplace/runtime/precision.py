"""The caller's autocast, carried with a mini-batch: torch keeps it per thread, and every part runs in its own."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import torch

DEVICE_TYPES = ("cpu", "cuda")


@dataclass(frozen=True)
class Autocast:
    """What `torch.autocast` was told."""

    device_type: str
    dtype: torch.dtype
    keeps_casts: bool


def autocasts() -> tuple[Autocast, ...]:
    """Return in which autocasts the calling thread is; none where it is in no such block."""
    keeps = torch.is_autocast_cache_enabled()
    return tuple(
        Autocast(kind, torch.get_autocast_dtype(kind), keeps)
        for kind in DEVICE_TYPES
        if torch.is_autocast_enabled(kind)
    )


@contextmanager
def within(autocasts: Sequence[Autocast]) -> Iterator[None]:
    """Let the block run as if it stood in these autocasts."""
    with ExitStack() as stack:
        for one in autocasts:
            stack.enter_context(torch.autocast(one.device_type, dtype=one.dtype, cache_enabled=one.keeps_casts))
        yield
