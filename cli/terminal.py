"""Progress and words on stderr; data goes to stdout."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager


def say(text: str) -> None:
    """Print a line on stderr."""
    from rich.console import Console

    Console(stderr=True, highlight=False).print(text, soft_wrap=True, markup=False)


@contextmanager
def layer_progress(title: str) -> Iterator[Callable[[int, int, str], None]]:
    """Show a progress bar on stderr while layers are measured; it is gone afterwards."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[layer]}"))
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(title, total=None, layer="", visible=False)

        def on_layer(done: int, total: int, layer: str) -> None:
            progress.update(task, completed=done, total=total, layer=layer, visible=True)

        yield on_layer
