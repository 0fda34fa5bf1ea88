"""What shows a run while it trains, where that is asked for: a live page, and event files for TensorBoard."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hyperplace.errors import FileError, HyperplaceError, UsageError
from hyperplace.values.sizes import MIB

from .folder import check_folder
from .terminal import say

if TYPE_CHECKING:
    from hyperplace.files.events import EventFile
    from hyperplace.values.reading import Reading

    from .live import LivePage


@dataclass(frozen=True)
class WatchWish:
    """What is asked for."""

    live: bool = False
    live_port: int | None = None
    tensorboard: Path | None = None  # the folder

    def __post_init__(self) -> None:
        if self.live_port is not None and not self.live:
            raise UsageError("--live-port is for --live; give both, or leave it out")
        if self.live_port is not None and not 0 <= self.live_port < 2**16:
            raise UsageError(f"--live-port {self.live_port} is no port; give 1 to 65535, or leave it out for any")

    @property
    def is_any(self) -> bool:
        return self.live or self.tensorboard is not None


class Watching:
    """Hands readings to whatever shows them; of several processes the first one's does."""

    def __init__(self, wish: WatchWish) -> None:
        self.wish = wish
        self._page: LivePage | None = None
        self._events: EventFile | None = None
        self._has_begun = False
        self.end = "The run has ended."  # what is said to whoever looks to the end

    def open(self) -> None:
        """Take what may be refused, such as the port, before any work."""
        from .live import LivePage

        if self.wish.tensorboard:
            check_folder(self.wish.tensorboard, "--tensorboard")
        if self.wish.live and self._page is None:
            self._page = LivePage(self.wish.live_port or 0)

    def begin(self, title: str, num_parts: int) -> None:
        """Begin to show, and say where."""
        from hyperplace.files.events import EventFile

        self._has_begun = True
        if self.wish.tensorboard:
            self._events = EventFile(self.wish.tensorboard)
            say(f"event file for TensorBoard: {self._events.path}")
        if self._page:
            self._page.begin(title, num_parts)
            say(f"live page, for this machine only: {self._page.url}")

    def on_reading(self, reading: "Reading") -> None:
        if self._page and self._has_begun:
            self._page.readings.add(reading)
        if self._events:
            self._write(self._events, reading)

    def _write(self, events: "EventFile", reading: "Reading") -> None:
        """Write a reading; where the disk takes no more of it, say so once, and train on."""
        try:
            events.add(scalars_of(reading))
        except FileError as fault:
            say(f"no more is written for TensorBoard: {fault}")
            events.close()
            self._events = None

    def close(self) -> None:
        if self._events:
            self._events.close()
            self._events = None
        if self._page:
            self._page.close(self.end)
            self._page = None


def scalars_of(reading: "Reading") -> dict[int, dict[str, float]]:
    """Return what a reading has by mini-batch and tag: every loss at its own, all else at the last."""
    last = reading.num_batches
    first = last - len(reading.losses) + 1
    found: dict[int, dict[str, float]] = {first + n: {"train/loss": loss} for n, loss in enumerate(reading.losses)}
    numbers = {
        "train/images per second": reading.images_per_s,
        "train/moved MiB": reading.moved_bytes / MIB,
        "test/accuracy": reading.test_accuracy,
        **{f"busy share/part {part}": share for part, share in enumerate(reading.busy)},
        **{f"staleness/part {part}": mean for part, mean in enumerate(reading.staleness)},
    }
    found.setdefault(last, {}).update({tag: number for tag, number in numbers.items() if number is not None})
    return found


@contextmanager
def watching(wish: WatchWish, *, is_first: bool) -> Iterator[Watching]:
    """Hand out what shows a run in the block; it ends with it."""
    made = Watching(wish)
    try:
        if is_first:
            made.open()
        yield made
    except HyperplaceError as fault:
        made.end = f"The run has ended with an error: {fault}"
        raise
    finally:
        made.close()
