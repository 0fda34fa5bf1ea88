"""The processes of a run, as a trainer sees them; `Alone` is the only one of a run on threads.

Every process makes the same calls in the same order. Those of several under torch.distributed are in processes.py.
"""

from typing import Any, Protocol


class World(Protocol):
    """The processes of a run, as a trainer sees them."""

    number: int
    size: int
    parts: tuple[int, ...]  # of this process

    def home(self, part: int) -> int:
        """Return the process that has a part."""

    def told(self, call: str, text: str, limit_s: float) -> list[str]:
        """Return what all processes say once all have come, be others in whatever call; goes in any thread."""

    def heard(self, key: str, text: str) -> list[str]:
        """Let the others hear a text from now on, and return the last that each was heard to say; waits for nobody."""

    def gather(self, call: str, content: Any) -> list[Any]:
        """Return what all processes bring along, in the first one; nothing elsewhere."""

    def exchange(self, call: str, content: Any) -> list[Any]:
        """Return what all processes bring along."""

    def share(self, call: str, content: Any, source: int) -> Any:
        """Return what the source process brings along."""

    def clock_ahead_ns(self) -> int:
        """Return by how much this process's clock shows more than the first one's."""

    def slow(self) -> list[str]:
        """Say which processes have been slow to show signs of life."""

    def tell_end(self, reason: str) -> None:
        """Let all others know why the run has ended."""

    def leave(self) -> None:
        """Part from the others once all have come to the end."""


class Alone:
    """The only process, with all parts."""

    number, size = 0, 1

    def __init__(self, num_parts: int) -> None:
        self.parts = tuple(range(num_parts))

    def home(self, part: int) -> int:
        return 0

    def told(self, call: str, text: str, limit_s: float) -> list[str]:
        return [text]

    def heard(self, key: str, text: str) -> list[str]:
        return [text]

    def gather(self, call: str, content: Any) -> list[Any]:
        return [content]

    def exchange(self, call: str, content: Any) -> list[Any]:
        return [content]

    def share(self, call: str, content: Any, source: int) -> Any:
        return content

    def clock_ahead_ns(self) -> int:
        return 0

    def slow(self) -> list[str]:
        return []

    def tell_end(self, reason: str) -> None:
        """Nobody else is there."""

    def leave(self) -> None:
        """Nobody else is there."""
