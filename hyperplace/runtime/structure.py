"""What a model takes and returns, put into tensors in their order and back: lists, tuples and dicts with constants."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from torch import Tensor

from hyperplace.errors import UsageError
from hyperplace.values.program import Feed, Program, Slot
from hyperplace.values.ranges import Ranges, union


def checked(program: Program, given: Sequence[Any]) -> list[Tensor]:
    """Return a program's inputs as tensors; refuse other shapes than its own before any part has seen them."""
    inputs, wanted = _flattened(program, given), program.inputs
    shapes = [tuple(x.shape) if isinstance(x, Tensor) else type(x).__name__ for x in inputs]
    if len(inputs) != len(wanted) or any(s[1:] != w for s, w in zip(shapes, wanted, strict=False)):
        shown = " and ".join(f"(rows, {', '.join(map(str, shape))})" for shape in wanted)
        raise UsageError(f"{program.name} wants inputs of shape {shown}, not {shapes}")
    rows = {x.shape[0] for x in inputs}
    if len(rows) != 1 or 0 in rows:
        raise UsageError(f"the inputs of a mini-batch must have the same number of rows, at least 1, not {shapes}")
    _check_rows(program, rows.pop())
    return inputs


def rows_fed(program: Program, parts: Collection[int], num_rows: int) -> Ranges:
    """Return which rows of a mini-batch's inputs some parts read."""
    segments = [segment for part in parts for segment in program.parts[part].segments]
    feeds = [take for segment in segments for take in segment.takes if isinstance(take, Feed)]
    planned = [(0, program.batch) if feed.rows is None else feed.rows for feed in feeds]
    return union([((a * num_rows // program.batch, b * num_rows // program.batch),) for a, b in planned])


def _check_rows(program: Program, rows: int) -> None:
    fewest, most = program.rows
    if rows < fewest or (most is not None and rows > most):
        span = f"{fewest}" if fewest == most else f"{fewest} or more" if most is None else f"{fewest} to {most}"
        raise UsageError(
            f"{program.name} does something else with {rows} rows than it was captured with: it takes {span}; make the "
            "model's code the same for any number of rows, or plan with this one"
        )


def _flattened(program: Program, given: Sequence[Any]) -> list[Any]:
    """Return the tensors among a program's inputs in the order of their numbers; keyword inputs come as one dict."""
    if program.takes is None:
        return list(given)
    args, kwargs = program.takes
    template = (kwargs,) if kwargs and not args else args
    found: dict[int, Any] = {}
    if len(given) != len(template) or not _matched(template, tuple(given), found):
        wanted = ", ".join(map(_shown, template))
        raise UsageError(f"{program.name} wants inputs like {wanted}, not {', '.join(map(_shown, given))}")
    return [found[number] for number in sorted(found)]


def filled(program: Program, tensors: Sequence[Tensor]) -> Any:
    """Return a program's outputs as the model returns them."""
    if program.returns is None:
        return tensors[0] if len(tensors) == 1 else tuple(tensors)
    return _filled(program.returns, tensors)


def _filled(template: Any, tensors: Sequence[Tensor]) -> Any:
    if isinstance(template, Slot):
        return tensors[template.number]
    if isinstance(template, dict):
        return {key: _filled(one, tensors) for key, one in template.items()}
    if isinstance(template, list | tuple):
        return type(template)(_filled(one, tensors) for one in template)
    return template


def _matched(template: Any, value: Any, found: dict[int, Any]) -> bool:
    """Say whether a value has the form of a template, and note its tensors."""
    if isinstance(template, Slot):
        found[template.number] = value
        return isinstance(value, Tensor)
    if isinstance(template, dict):
        same = isinstance(value, Mapping) and value.keys() == template.keys()
        return same and all(_matched(one, value[key], found) for key, one in template.items())
    if isinstance(template, list | tuple):
        same = isinstance(value, list | tuple) and len(value) == len(template)
        return same and all(_matched(one, other, found) for one, other in zip(template, value, strict=True))
    return not isinstance(value, Tensor) and bool(template == value)


def _shown(value: Any) -> str:
    if isinstance(value, Slot):
        return "a tensor"
    if isinstance(value, Tensor):
        return f"a tensor {tuple(value.shape)}"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key!r}: {_shown(one)}" for key, one in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "(" + ", ".join(map(_shown, value)) + ")"
    return repr(value) if value is None or isinstance(value, bool | int | float | str) else type(value).__name__
