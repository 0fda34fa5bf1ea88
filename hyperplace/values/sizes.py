"""Bytes in words: MiB from one MiB up and KiB below, so that two small sizes that differ also look different."""

from collections.abc import Iterable
from dataclasses import dataclass

KIB, MIB = 2**10, 2**20


@dataclass(frozen=True)
class ByteScale:
    """The unit of one table or sentence."""

    name: str
    size: int

    def of(self, num_bytes: float) -> float:
        return num_bytes / self.size

    def figure(self, num_bytes: float) -> str:
        return f"{num_bytes / self.size:,.1f}"


def byte_scale(amounts: Iterable[float]) -> ByteScale:
    """Return MiB where the largest amount is one at least, else KiB."""
    most = max(amounts, default=0)
    return ByteScale("KiB", KIB) if 0 < most < MIB else ByteScale("MiB", MIB)


def size(num_bytes: float) -> str:
    """Return one amount with its unit."""
    scale = byte_scale([num_bytes])
    return f"{scale.figure(num_bytes)} {scale.name}"
