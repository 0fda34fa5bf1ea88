"""What a checkpoint file holds, checked against the trainer that is to take it, and what each part takes of it.

A file is data from anywhere: every value must be of the kind that the trainer has in its place.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, TypeGuard

import torch
from torch import Tensor, nn

from hyperplace.errors import FileError
from hyperplace.runtime.pieces import slice_of
from hyperplace.runtime.trial import stumbles
from hyperplace.runtime.weights import Weights
from hyperplace.values.program import Piece

MOST = 1e300  # no number is larger; Python's whole ones may be, and then fit into no float
MOST_COUNT = 2**53  # of updates: more than anybody makes, and fits into every counter of torch


@dataclass(frozen=True)
class Saved:
    """The content of a checkpoint; optimizer state by the parameter's name, averages None where there are none."""

    model: Mapping[str, Tensor]
    optimizer: Mapping[str, Mapping[str, Any]]
    groups: Sequence[Mapping[str, Any]]
    scheduler: Mapping[str, Any] | None
    average: Mapping[str, Tensor] | None
    num_averaged: int
    num_batches: int
    extra: Mapping[str, Any]


def as_saved(path: object, content: Mapping[str, Any]) -> Saved:
    """Return the content of a file as what it is; raise FileError with what is missing or of another kind."""
    missing = [field.name for field in fields(Saved) if field.name not in content]
    if missing:
        raise FileError(f"{path}: the checkpoint has no {', '.join(missing)}; it was not written whole by hyperplace")
    saved = Saved(**{field.name: content[field.name] for field in fields(Saved)})
    _refuse(path, list(_kind_faults(saved)))
    return saved


def check_saved(path: object, saved: Saved, parts: Sequence[Weights]) -> None:
    """Refuse what parts with these weights could not take."""
    _refuse(path, [fault for part in parts for fault in _part_faults(saved, part)])
    _refuse(path, [fault for part in parts for fault in _trial_faults(saved, part)])


def give_back(saved: Saved, weights: Weights) -> None:
    """Give a part's optimizer, scheduler and average what they had; the part has its weights already."""
    if weights.optimizer is None:
        return
    for group, known in zip(weights.optimizer.param_groups, saved.groups, strict=True):
        group.update(known)
    for attribute, piece in weights.owned.items():
        state = saved.optimizer.get(piece.name, {})
        parameter = weights.parameters[attribute]
        weights.optimizer.state[parameter] = {key: _own(value, piece, parameter) for key, value in state.items()}
    if weights.scheduler and saved.scheduler:
        weights.scheduler.load_state_dict(dict(saved.scheduler))
    if weights.average and saved.average:
        with torch.no_grad():
            for tensor, piece in zip(weights.average.module, weights.owned.values(), strict=True):
                tensor.copy_(slice_of(piece, saved.average[piece.name]))
            weights.average.n_averaged.fill_(saved.num_averaged)


def _own(value: Any, piece: Piece, parameter: Tensor) -> Any:
    """Return a part's piece of what an optimizer remembers; never the same tensor twice, for it is written to."""
    if isinstance(value, Tensor) and tuple(value.shape) == piece.shape:
        return slice_of(piece, value).to(parameter.device)
    return value.clone() if isinstance(value, Tensor) else value


def _refuse(path: object, faults: Sequence[str]) -> None:
    if faults:
        more = f"; and {len(faults) - 3} more" if len(faults) > 3 else ""
        raise FileError(f"{path}: {'; '.join(faults[:3])}{more}; the checkpoint was changed, or is of something else")


def _kind_faults(saved: Saved) -> Iterator[str]:
    """Say what is not even of the right kind."""
    if not (_is_by_name(saved.model) and all(isinstance(value, Tensor) for value in saved.model.values())):
        yield "model is not a dict of tensors"
    if not (_is_by_name(saved.optimizer) and all(_is_by_name(state) for state in saved.optimizer.values())):
        yield "optimizer is not a dict of dicts"
    if not (isinstance(saved.groups, list) and all(_is_by_name(group) for group in saved.groups)):
        yield "groups is not a list of dicts"
    if not (saved.scheduler is None or _is_by_name(saved.scheduler)):
        yield "scheduler is not a dict"
    if not (saved.average is None or _is_by_name(saved.average)):
        yield "average is not a dict"
    for name in ("num_averaged", "num_batches"):
        if type(value := getattr(saved, name)) is not int or not 0 <= value < MOST_COUNT:
            yield f"{name} {_shown(value)} is not a count"
    if not isinstance(saved.extra, dict):
        yield "extra is not a dict"


def _part_faults(saved: Saved, weights: Weights) -> Iterator[str]:
    """Say what a part's optimizer, scheduler and average could not take."""
    if weights.optimizer is None:
        return
    groups = weights.optimizer.param_groups
    if len(saved.groups) != len(groups):
        yield f"groups has {len(saved.groups)} groups, but the optimizer {len(groups)}: give the same optimizer"
    for number, (known, group) in enumerate(zip(saved.groups, groups, strict=False)):
        own = {"initial_lr": 0.0, **group}  # which a scheduler puts there
        del own["params"]
        yield from _unlike(f"groups[{number}]", known, own)
    if weights.scheduler and saved.scheduler is not None:
        yield from _unlike("scheduler", saved.scheduler, weights.scheduler.state_dict())
    for attribute, piece in weights.owned.items():
        for key, value in saved.optimizer.get(piece.name, {}).items():
            yield from _state_faults(f"optimizer {piece.name} {key}", value, piece.shape)
        average = None if saved.average is None else saved.average.get(piece.name)
        if weights.average and saved.average is not None:
            own_dtype = weights.parameters[attribute].dtype
            if not (isinstance(average, Tensor) and tuple(average.shape) == piece.shape and average.dtype == own_dtype):
                yield f"average {piece.name} is not a tensor of shape {piece.shape}"


def _trial_faults(saved: Saved, weights: Weights) -> Iterator[str]:
    """Say where a part's optimizer or scheduler would fail though all is of its kind: only they know what they need."""
    if weights.optimizer is None:
        return
    states: dict[nn.Parameter, Mapping[str, Any]] = {}
    for attribute, piece in weights.owned.items():
        parameter = weights.parameters[attribute]
        known = saved.optimizer.get(piece.name, {})
        states[parameter] = {key: _own(value, piece, parameter) for key, value in known.items()}
    if fault := stumbles(weights.optimizer, weights.scheduler, saved.groups, states, saved.scheduler or {}):
        yield f"{type(weights.optimizer).__name__} cannot go on from it ({fault})"


def _state_faults(name: str, value: Any, shape: tuple[int, ...]) -> Iterator[str]:
    """Optimizers remember tensors of a parameter's shape, and numbers, some of them as tensors."""
    if isinstance(value, Tensor):
        if tuple(value.shape) != shape and value.numel() != 1:
            yield f"{name} has the shape {tuple(value.shape)}, not {shape}"
        elif value.numel() == 1 and tuple(value.shape) != shape and not _is_count(value.item()):
            yield f"{name} {_shown(value.item())} is not a count"
    elif value is not None and not isinstance(value, bool) and not _is_count(value):
        yield f"{name} {_shown(value)} is neither a tensor nor a count"


def _unlike(name: str, found: Any, own: Any) -> Iterator[str]:
    """Say where settings differ in kind from those that are there: other names, a text for a number."""
    if isinstance(own, dict):
        if not isinstance(found, dict):
            yield f"{name} is not a dict"
        elif all(isinstance(key, str) for key in own):
            for key, value in found.items():  # one that is missing stays as it is: another torch may have had fewer
                yield from (
                    _unlike(f"{name} {key}", value, own[key]) if key in own else [f"{name} has an unknown {key!r}"]
                )
    elif isinstance(own, list | tuple):
        if not isinstance(found, list | tuple) or len(found) != len(own):
            yield f"{name} is not a list of {len(own)}"
        else:
            for number, (one, other) in enumerate(zip(found, own, strict=True)):
                yield from _unlike(f"{name}[{number}]", one, other)
    elif isinstance(own, bool) or own is None:  # None is a choice that an optimizer makes later, between two
        if not (found is None or isinstance(found, bool)):
            yield f"{name} {_shown(found)} is not True, False or None"
    elif isinstance(own, str | Tensor):
        if not isinstance(found, type(own)):
            yield f"{name} {_shown(found)} is not a {type(own).__name__}"
    elif isinstance(own, int | float) and not _is_number(found):
        yield f"{name} {_shown(found)} is not a number"


def _is_by_name(value: object) -> bool:
    return isinstance(value, dict) and all(isinstance(key, str) for key in value)


def _is_number(value: object) -> bool:
    return not isinstance(value, bool) and _is_finite(value)


def _is_count(value: object) -> bool:
    return _is_finite(value) and value >= 0


def _is_finite(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and -MOST < value < MOST


def _shown(value: object) -> str:
    return type(value).__name__ if isinstance(value, Tensor | dict | list | tuple) else repr(value)[:40]
