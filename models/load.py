"""From the name of a model to the model itself, with a sample input of the right shape.

In: a zoo name, `package.module:factory` or `path/to/file.py:factory`, and shapes without the batch.
Out: a LoadedModel, made on the meta device unless told otherwise: shapes and names without memory or time.
"""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

from hyperplace.errors import HyperplaceError, ModelError, UsageError

from .source import Factory, one_line, open_source, parse_source
from .zoo import ZOO, ModelEntry

if TYPE_CHECKING:
    from torch import Tensor, nn

SAMPLE_ROWS = 2  # batch norm in train mode refuses one row once the maps have shrunk to a pixel

Shape = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class LoadedModel:
    """A module in train mode and a sample input (one tensor per argument of its forward)."""

    name: str  # safe in file names
    module: nn.Module = field(repr=False)
    sample: tuple[Tensor, ...] = field(repr=False)


def load_model(spec: str, input_shapes: Sequence[Shape] | None = None, *, device: str = "meta") -> LoadedModel:
    """Find and make a model; `input_shapes` has one shape (without the batch) per argument of its forward.

    A zoo model knows its own shape. A model that cannot be made on the meta device is made on the CPU.
    """
    shapes = tuple(input_shapes or ())
    return _load_code(spec, shapes, device) if ":" in spec else _load_zoo(spec, shapes, device)


def _load_zoo(name: str, shapes: tuple[Shape, ...], device: str) -> LoadedModel:
    entry = _find_entry(name)
    shape = _check_shape(entry, shapes) if shapes else entry.input_shape
    factory = getattr(importlib.import_module(f".{entry.family}", __package__), entry.factory)
    if entry.sides == "square":
        factory = partial(factory, image_size=shape[1])
    module, device = _build(name, factory, device)
    return LoadedModel(entry.name, module, _sample((shape,), device))


def _load_code(spec: str, shapes: tuple[Shape, ...], device: str) -> LoadedModel:
    source = parse_source(spec)
    if not shapes:
        raise UsageError(f"the input shape of {spec} is not known; give it, like --input 3x224x224")
    with open_source(source) as factory:
        module, device = _build(spec, factory, device)
    return LoadedModel(source.name, module, _sample(shapes, device))


def _find_entry(name: str) -> ModelEntry:
    if name in ZOO:
        return ZOO[name]
    if name.endswith(".py"):
        raise UsageError(f"{name} names a file but no factory in it; write {name}:function_or_class")
    close = difflib.get_close_matches(name.lower(), ZOO, n=1)
    hint = f"did you mean {close[0]}? " if close else ""
    own = "your own is path/to/file.py:factory"
    raise ModelError(f"no model named {name!r}; {hint}hyperplace models lists them, and {own}")


def _check_shape(entry: ModelEntry, shapes: tuple[Shape, ...]) -> Shape:
    """Refuse what the model's layers cannot read, before torch says so in its own words."""
    usual = "x".join(map(str, entry.input_shape))
    if len(shapes) > 1:
        raise UsageError(f"{entry.name} takes one input but {len(shapes)} are given; keep one --input {usual}")
    shape = shapes[0]
    channels = entry.input_shape[0]
    if len(shape) != 3 or shape[0] != channels:
        wrong = f"reads images of {channels} channel{'s' if channels > 1 else ''}"
    elif entry.sides == "fixed" and shape != entry.input_shape:
        wrong = "fits one image size only"
    elif entry.sides == "square" and shape[1] != shape[2]:
        wrong = "needs square images"
    elif min(shape[1:]) < entry.min_side:
        wrong = f"needs images of at least {entry.min_side}x{entry.min_side}"
    else:
        return shape
    raise UsageError(f"{entry.name} {wrong}, not {'x'.join(map(str, shape))}; try --input {usual}")


def _build(spec: str, factory: Factory, device: str) -> tuple[nn.Module, str]:
    """Make the module on the device, or on the CPU if it cannot be made on meta; say which it was."""
    import torch

    place = torch.device(device)
    try:
        with place:
            module = factory()
    except HyperplaceError:
        raise
    except Exception as fault:  # the user's code: anything can come
        # Reading a value off a meta tensor is a NotImplementedError or its base, a RuntimeError.
        if device == "meta" and isinstance(fault, RuntimeError):
            return _build(spec, factory, "cpu")
        raise ModelError(f"{spec} raised {one_line(fault)}; it has to work without arguments") from fault
    if not isinstance(module, torch.nn.Module):
        raise ModelError(f"{spec} returned a {type(module).__name__}; it has to return an nn.Module")
    if device == "meta" and not all(t.is_meta for t in chain(module.parameters(), module.buffers())):
        return _build(spec, factory, "cpu")
    return module.train(), device


def _sample(shapes: Sequence[Shape], device: str) -> tuple[Tensor, ...]:
    import torch

    if device == "meta":
        return tuple(torch.empty(SAMPLE_ROWS, *shape, device=device) for shape in shapes)
    generator = torch.Generator().manual_seed(0)  # one of our own: the caller's random state stays
    return tuple(torch.randn(SAMPLE_ROWS, *shape, generator=generator).to(device) for shape in shapes)
