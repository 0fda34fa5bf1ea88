"""Values that can be looked at: whoever can draw them says so here, and values know nothing of drawing.

`import hyperplace` registers what the report draws (see hyperplace/__init__.py); without it a notebook shows the line
that a value prints as everywhere.
"""

from collections.abc import Callable
from typing import Any

_drawers: dict[str, Callable[[Any], Any]] = {}


def register(way: str, draw: Callable[[Any], Any]) -> None:
    """Let values be drawn one way, "html" or "figure", by a function of the value."""
    _drawers[way] = draw


class Drawn:
    """A value that notebooks show as HTML."""

    def _repr_html_(self) -> str | None:
        drawn: str | None = self._drawn("html")
        return drawn

    def _drawn(self, way: str) -> Any:
        draw = _drawers.get(way)
        return draw(self) if draw else None
