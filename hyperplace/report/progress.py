"""How far something is, while it runs: below the cell of a notebook as HTML, in a terminal as a bar on stderr.

A notebook is no terminal: codes that move its cursor would be shown as text, and every line would stay.
"""

import sys
import time
from collections.abc import Iterable, Iterator, Sized
from html import escape
from importlib import import_module
from types import TracebackType
from typing import Any, Protocol, TypeVar

EVERY_S = 0.2

T = TypeVar("T")


class Line(Protocol):
    """One line that changes, in a `with` block; afterwards it says how long all took, or is gone."""

    def say(self, words: str, done: int = 0, total: int | None = None) -> None: ...

    def __enter__(self) -> "Line": ...

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, at: TracebackType | None
    ) -> None: ...


def progress(batches: Iterable[T], trainer: Any = None) -> Iterator[T]:
    """Yield mini-batches, and show how far a loop over them is: in a notebook below its cell, otherwise on stderr.

    With a trainer it says its staleness too. Nothing is waited for: the pipe stays full.

    >>> for x, y in hyperplace.progress(loader, trainer):
    ...     trainer.step(x, y)
    """
    total = len(batches) if isinstance(batches, Sized) else None
    begin = time.perf_counter()
    with line("training", is_quiet=False) as shown:
        for done, batch in enumerate(batches, 1):
            yield batch
            shown.say(_words(trainer, done / max(time.perf_counter() - begin, 1e-9)), done, total)


def _words(trainer: Any, rate: float) -> str:
    means = [f"{part.mean:.1f}" for part in trainer.staleness] if trainer is not None else []
    return f"{rate:,.1f} mini-batches/s" + (f", staleness {' '.join(means)}" if 0 < len(means) <= 8 else "")


def line(title: str, *, is_quiet: bool = True) -> Line:
    """Return a line for what is under way; outside notebooks a quiet one shows nothing."""
    if _in_notebook():
        return NotebookLine(title)
    return _Nothing() if is_quiet else _TerminalLine(title)


def _in_notebook() -> bool:
    """Say whether this runs in a kernel, whose output somebody sees as HTML."""
    known: Any = sys.modules.get("IPython")
    shell = known.get_ipython() if known else None
    return hasattr(shell, "kernel")


class _Nothing:
    def say(self, words: str, done: int = 0, total: int | None = None) -> None:
        pass

    def __enter__(self) -> "_Nothing":
        return self

    def __exit__(self, *fault: object) -> None:
        pass


class NotebookLine:
    """A line of HTML that is written again and again."""

    def __init__(self, title: str) -> None:
        self._title, self._begin, self._last = title, time.perf_counter(), 0.0
        self._handle: Any = None

    def __enter__(self) -> "NotebookLine":
        self._show(self.markup("", 0, None))
        return self

    def say(self, words: str, done: int = 0, total: int | None = None) -> None:
        """Show where it is, five times a second at most."""
        now = time.perf_counter()
        if now - self._last >= EVERY_S:
            self._last = now
            self._show(self.markup(words, done, total))

    def markup(self, words: str, done: int, total: int | None) -> str:
        """Return the line: a bar that moves by itself where nobody knows how long it takes."""
        value = f' value="{done}" max="{total}"' if total else ""
        of = f" of {total:,}" if total else ""
        count = f" {done:,}{of}" if done else ""
        return f"<progress{value}></progress> {escape(self._title)}{count} {escape(words)}"

    def __exit__(self, kind: object, fault: BaseException | None, at: object) -> None:
        how = "broken off" if fault else "done"
        self._show(f"{escape(self._title)}: {how} after {time.perf_counter() - self._begin:,.1f} s")

    def _show(self, text: str) -> None:
        shown: Any = import_module("IPython.display")  # which has no types
        if self._handle is None:
            self._handle = shown.display(shown.HTML(text), display_id=True)
        else:
            self._handle.update(shown.HTML(text))


class _TerminalLine:
    """A bar on stderr while the block runs; where that is no terminal, nothing."""

    def __init__(self, title: str) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

        console = Console(stderr=True)
        words = TextColumn("{task.fields[words]}", markup=False)
        self._bars = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=20),
            MofNCompleteColumn(),
            words,
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task = self._bars.add_task(title, total=None, words="")

    def __enter__(self) -> "_TerminalLine":
        self._bars.start()
        return self

    def say(self, words: str, done: int = 0, total: int | None = None) -> None:
        self._bars.update(self._task, completed=done, total=total, words=words)

    def __exit__(self, *fault: object) -> None:
        self._bars.stop()
