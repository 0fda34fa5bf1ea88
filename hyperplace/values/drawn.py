"""Values that can be looked at: whoever can draw them says so here, and values know nothing of drawing.

`import hyperplace` registers what the report draws (see hyperplace/__init__.py); without it a notebook shows the line
that a value prints as everywhere.
"""

from collections.abc import Callable
from contextlib import nullcontext
from functools import wraps
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

_drawers: dict[str, Callable[[Any], Any]] = {}


def register(way: str, draw: Callable[[Any], Any]) -> None:
    """Let values be drawn one way, "html" or "figure", by a function of the value; "line" is of a title."""
    _drawers[way] = draw


def line(title: str) -> Any:
    """Return a context with a method `say` that shows in a notebook how far something is; elsewhere nothing does."""
    draw = _drawers.get("line")
    return draw(title) if draw else nullcontext()


def watched(title: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Let a notebook show that a function is at work."""

    def around(work: Callable[P, T]) -> Callable[P, T]:
        @wraps(work)
        def run(*given: P.args, **named: P.kwargs) -> T:
            with line(title):
                return work(*given, **named)

        return run

    return around


class Drawn:
    """A value that notebooks show as HTML."""

    def _repr_html_(self) -> str | None:
        drawn: str | None = self._drawn("html")
        return drawn

    def _drawn(self, way: str) -> Any:
        draw = _drawers.get(way)
        return draw(self) if draw else None
