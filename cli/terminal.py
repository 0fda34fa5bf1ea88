"""Progress and words on stderr; data goes to stdout."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from hyperplace.training import Snapshot

INTERRUPTED = 130  # as a shell says it of Ctrl-C


def say(text: str) -> None:
    """Print a line on stderr."""
    from rich.console import Console

    Console(stderr=True, highlight=False).print(text, soft_wrap=True, markup=False)


class Shown:
    """A line on stderr that shows which layer is measured, then how far the search has come."""

    def __init__(self, bars: "Progress", task: "TaskID") -> None:
        self._bars, self._task = bars, task

    def on_layer(self, done: int, total: int, layer: str) -> None:
        if done < total:
            self._bars.update(self._task, completed=done, total=total, words=layer, visible=True)
        else:  # a full bar stops its clock, and what comes next may take a while before it has something to say
            self._bars.update(self._task, completed=0, total=None, words="", visible=True)

    def on_progress(self, text: str) -> None:
        self._bars.update(self._task, description="searching", total=None, words=text, visible=True)


@contextmanager
def progress(title: str) -> Iterator[Shown]:
    """Show a progress line while the block runs; it is gone afterwards."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TextColumn("{task.fields[words]}"))
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        yield Shown(bars, bars.add_task(title, total=None, words="", visible=False))


class EpochBar:
    """A bar on stderr for the epoch under way; gone between epochs, so that lines on stdout stay whole."""

    def __init__(self, *, is_shown: bool = True) -> None:
        self._is_shown = is_shown
        self._bars: Progress | None = None
        self._task: TaskID | None = None

    def on_step(self, shown: "Snapshot") -> None:
        if not self._is_shown:
            return
        if self._bars is None or self._task is None:
            self._bars = _epoch_bars()
            self._task = self._bars.add_task("", words="")
            self._bars.start()
        title = f"{shown.method}, epoch {shown.epoch}/{shown.num_epochs}"
        self._bars.update(self._task, description=title, completed=shown.step, total=shown.num_steps, words=str(shown))

    def end(self) -> None:
        if self._bars:
            self._bars.stop()
        self._bars = None


def _epoch_bars() -> "Progress":
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=20),
        MofNCompleteColumn(),
        TextColumn("{task.fields[words]}", markup=False),
    )
    console = Console(stderr=True)
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
