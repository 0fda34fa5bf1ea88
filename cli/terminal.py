"""Progress and words on stderr; data goes to stdout."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


def say(text: str) -> None:
    """Print a line on stderr."""
    from rich.console import Console

    Console(stderr=True, highlight=False).print(text, soft_wrap=True, markup=False)


class Shown:
    """A line on stderr that shows which layer is measured, then how far the search has come."""

    def __init__(self, bars: "Progress", task: "TaskID") -> None:
        self._bars, self._task = bars, task

    def on_layer(self, done: int, total: int, layer: str) -> None:
        self._bars.update(self._task, completed=done, total=total, words=layer, visible=True)

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
