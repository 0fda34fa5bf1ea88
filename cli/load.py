"""A model by name, module or file, as every command takes it."""

from typing import Any


def load(spec: str, shapes: list[str] | None) -> Any:
    """Return the loaded model: its short name, module and sample input."""
    from hyperplace.models import load_model, parse_shape

    return load_model(spec, [parse_shape(text) for text in shapes] if shapes else None)
