"""Checkpoints that do not know the plan: every tensor whole, under the model's own name.

Optimizer state that has a parameter's shape is put together from the parts' pieces like the parameter itself; what is
one number (a step count) is the same on every part. So a checkpoint loads into any other plan of the model. Files are
read as plain data (`weights_only`): nothing in them is executed.
"""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from hyperplace.errors import FileError, HyperplaceError
from hyperplace.files.write import open_whole
from hyperplace.runtime.checkpoints.saved import Saved, as_saved, check_saved
from hyperplace.runtime.checkpoints.shards import (
    merged,
    raise_everywhere,
    read_shards,
    shard_of,
    together,
    write_shards,
)
from hyperplace.runtime.checkpoints.tensor_file import is_marked, read_tensors, write_tensors
from hyperplace.runtime.survival.survivor import Survivor
from hyperplace.runtime.trainer import Trainer

KIND, VERSION = "checkpoint", 1
Trains = Trainer | Survivor


def save_checkpoint(
    trainer: Trains, path: str | Path, extra: Mapping[str, Any] | None = None, *, sharded: bool = False
) -> None:
    """Write all that training needs to go on; `extra` is the caller's own, made of numbers, texts and tensors.

    A file, which the first of several processes writes, or `sharded` a folder, to which all do.
    """
    trainer.outlive(lambda one: _save(one, path, extra, sharded=sharded))


def _save(trainer: Trainer, path: str | Path, extra: Mapping[str, Any] | None, *, sharded: bool) -> None:
    if sharded:
        shards = trainer.settled(lambda: [shard_of(trainer, rank) for rank in trainer.ranks])
        write_shards(trainer, Path(path), shards, extra or {})
        return
    content = checkpoint(trainer)
    fault: HyperplaceError | None = None
    if content:
        try:
            _write(path, {"hyperplace": KIND, "version": VERSION, **content, "extra": dict(extra or {})})
        except HyperplaceError as error:
            fault = error
    if said := trainer.world.share("save_checkpoint", str(fault or ""), 0):
        raise_everywhere(trainer.world, "save_checkpoint", fault or FileError(f"rank 0: {said}"))


def _write(path: str | Path, content: Mapping[str, Any]) -> None:
    with open_whole(path) as file:
        write_tensors(file, content)


def load_checkpoint(trainer: Trains, path: str | Path) -> dict[str, Any]:
    """Go on from a checkpoint of the same model, whatever its plan; return what the caller had put beside it."""
    return trainer.outlive(lambda one: _load(one, path), loads=True)


def _load(trainer: Trainer, path: str | Path) -> dict[str, Any]:
    if Path(path).is_dir():
        return _load_shards(trainer, Path(path))
    return dict(restore(trainer, path, read_for(trainer, path)).extra)


def _load_shards(trainer: Trainer, folder: Path) -> dict[str, Any]:
    read: list[dict[str, Any]] = []
    together(trainer.world, "load_checkpoint", lambda: read.append(read_shards(trainer, folder)))
    return dict(restore(trainer, folder, read[0]).extra)


def read_for(trainer: Trains, path: str | Path) -> dict[str, Any]:
    """Return the content of a checkpoint file, which only the first of several processes needs to have."""
    return trainer.outlive(lambda one: _read(one, path), flushes=False)


def _read(trainer: Trainer, path: str | Path) -> dict[str, Any]:
    content: dict[str, Any] = {}
    fault: FileError | None = None
    if trainer.world.number == 0:
        try:
            content = read_checkpoint(path)
        except FileError as error:
            fault = error
    said, content = trainer.world.share("load_checkpoint", [str(fault or ""), content], 0)
    if said:
        raise_everywhere(trainer.world, "load_checkpoint", fault or FileError(f"rank 0: {said}"))
    return content


def read_checkpoint(path: str | Path) -> dict[str, Any]:
    """Return the content of a checkpoint file."""
    content = read_tensors(path, "a checkpoint")
    if not is_marked(content, KIND):
        raise FileError(f"{path} is not a checkpoint of hyperplace; for a plain state dict use load_state_dict")
    if content["version"] != VERSION:
        raise FileError(f"{path}: checkpoint version {content['version']!r} cannot be read, only {VERSION}")
    return dict(content)


def checkpoint(trainer: Trainer) -> dict[str, Any]:
    """Return the trainer's whole state: after a fault, an interrupt or its end, that of the last finished updates."""
    return trainer.settled(partial(_content, trainer))


def _content(trainer: Trainer) -> dict[str, Any]:
    """Return what all parts have, put together in the first process; nothing in others."""
    found = trainer.world.gather("save_checkpoint", [shard_of(trainer, rank) for rank in trainer.ranks])
    return merged(trainer.state, [shard for shards in found for shard in shards]) if found else {}


def restore(trainer: Trains, path: str | Path, content: Mapping[str, Any]) -> Saved:
    """Put what was read from a file into a trainer of the same model: all of it, or, where something is wrong, none."""
    saved = as_saved(path, content)
    trainer.state.check(saved.model)
    check_saved(path, saved, [rank.weights for rank in trainer.ranks])
    trainer.load(saved)
    return saved
