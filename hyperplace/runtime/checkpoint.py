"""Checkpoints that do not know the plan: every tensor whole, under the model's own name.

Optimizer state that has a parameter's shape is put together from the parts' pieces like the parameter itself; what is
one number (a step count) is the same on every part. So a checkpoint loads into any other plan of the model. Files are
read as plain data (`weights_only`): nothing in them is executed.
"""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from hyperplace.errors import FileError
from hyperplace.files.write import open_whole
from hyperplace.runtime.pieces import put_back
from hyperplace.runtime.saved import Saved, as_saved, check_saved
from hyperplace.runtime.trainer import Trainer
from hyperplace.runtime.trial import settings_of

KIND, VERSION = "checkpoint", 1


def save_checkpoint(trainer: Trainer, path: str | Path, extra: Mapping[str, Any] | None = None) -> None:
    """Write all that training needs to go on; `extra` is the caller's own, made of numbers, texts and tensors."""
    content = {"hyperplace": KIND, "version": VERSION, **checkpoint(trainer), "extra": dict(extra or {})}
    with open_whole(path) as file:
        try:
            torch.save(content, file)
        except RuntimeError as fault:
            if isinstance(fault.__context__, OSError):  # torch only says that it is not where it should be in the file
                raise fault.__context__ from None
            raise


def load_checkpoint(trainer: Trainer, path: str | Path) -> dict[str, Any]:
    """Go on from a checkpoint of the same model, whatever its plan; return what the caller had put beside it."""
    return dict(restore(trainer, path, read_checkpoint(path)).extra)


def read_checkpoint(path: str | Path) -> dict[str, Any]:
    """Return the content of a checkpoint file."""
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as fault:  # whatever torch or pickle raise at bytes that are not what they seem
        reason = " ".join(str(fault).split())[:200] or type(fault).__name__
        raise FileError(f"cannot read the checkpoint {path}: {reason}; is it one, and whole?") from None
    if not isinstance(content, dict) or content.get("hyperplace") != KIND:
        raise FileError(f"{path} is not a checkpoint of hyperplace; for a plain state dict use load_state_dict")
    if content.get("version") != VERSION:
        raise FileError(f"{path}: checkpoint version {content.get('version')!r} cannot be read, only {VERSION}")
    return content


def checkpoint(trainer: Trainer) -> dict[str, Any]:
    """Return the trainer's whole state: after a fault, an interrupt or its end, that of the last finished updates."""
    return trainer.settled(partial(_content, trainer))


def _content(trainer: Trainer) -> dict[str, Any]:
    first = next((r.weights for r in trainer.ranks if r.weights.optimizer), None)
    return {
        "model": trainer.settled_state(),
        "optimizer": _optimizer_state(trainer),
        "groups": [settings_of(group) for group in first.optimizer.param_groups] if first and first.optimizer else [],
        "scheduler": first.scheduler.state_dict() if first and first.scheduler else None,
        "average": trainer.settled_average() if first and first.average else None,
        "num_averaged": int(first.average.n_averaged) if first and first.average else 0,
        "num_batches": trainer.num_finished,
    }


def _optimizer_state(trainer: Trainer) -> dict[str, dict[str, Any]]:
    """Return for every parameter of the model what the optimizer remembers of it."""
    state: dict[str, dict[str, Any]] = {}
    for rank in trainer.ranks:
        for attribute, piece in rank.weights.owned.items():
            parameter = rank.weights.parameters[attribute]
            assert rank.weights.optimizer is not None
            for key, value in rank.weights.optimizer.state.get(parameter, {}).items():
                whole = state.setdefault(piece.name, {})
                if isinstance(value, Tensor) and value.shape == parameter.shape:
                    whole.setdefault(key, torch.zeros(piece.shape, dtype=value.dtype))
                    put_back(piece, whole[key], value)
                else:
                    whole[key] = value
    return state


def restore(trainer: Trainer, path: str | Path, content: Mapping[str, Any]) -> Saved:
    """Put what was read from a file into a trainer of the same model: all of it, or, where something is wrong, none."""
    saved = as_saved(path, content)
    trainer.check_state(saved.model)
    check_saved(path, saved, [rank.weights for rank in trainer.ranks])
    trainer.load(saved)
    return saved
