"""Checkpoints of which every process writes what it has: a folder with a file per part, and an index.

The index names the files of one moment and is written once all of them are there, so a folder always holds one whole
checkpoint. It is read into any plan of the model: each process takes from the files what its own parts use.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from hyperplace.errors import FileError, HyperplaceError
from hyperplace.files.write import open_whole, write_text
from hyperplace.runtime.pieces import put_back
from hyperplace.runtime.state import is_covered
from hyperplace.runtime.trainer import Trainer
from hyperplace.runtime.world import World
from hyperplace.values.program import Piece

INDEX, KIND, SHARD, VERSION = "checkpoint.json", "sharded checkpoint", "checkpoint shard", 1
PLAIN = ("groups", "scheduler", "num_averaged")  # what all parts have alike


def write_shards(trainer: Trainer, folder: Path, shards: list[dict[str, Any]], extra: Mapping[str, Any]) -> None:
    """Write the shards of this process's parts, then the index; all processes or none succeed."""
    num_parts = len(trainer.program.parts)
    moments = trainer.world.exchange("save_checkpoint", [shard["num_batches"] for shard in shards])
    moment = min(number for some in moments for number in some)
    names = [f"part-{part}-of-{num_parts}.{moment}.pt" for part in range(num_parts)]

    def write() -> None:
        folder.mkdir(parents=True, exist_ok=True)
        for shard in shards:
            table = trainer.program.parts[shard["part"]]
            pieces = {n: [p.name, list(p.shape), p.index, p.dtype] for n, p in table.held.items()}
            rest = trainer.state.rest if shard["part"] == 0 else {}
            head = {"hyperplace": SHARD, "version": VERSION, "pieces": pieces, "rest": rest, "extra": dict(extra)}
            with open_whole(folder / names[shard["part"]]) as file:
                torch.save(head | shard, file)

    index = {"hyperplace": KIND, "version": VERSION, "num_batches": moment, "files": names}
    together(trainer.world, "save_checkpoint", write)
    together(trainer.world, "save_checkpoint", lambda: write_text(folder / INDEX, json.dumps(index, indent=1) + "\n"))
    for path in folder.glob("part-*-of-*.*.pt"):
        if path.name not in names:
            path.unlink(missing_ok=True)


def together(world: World, call: str, work: Callable[[], None]) -> None:
    """Do some work in every process; where one cannot, all raise what it says."""
    fault = ""
    try:
        work()
    except (HyperplaceError, OSError) as error:
        fault = f"rank {world.number}: {error}" if world.size > 1 else str(error)
    if said := next((one for one in world.exchange(call, fault) if one), ""):
        raise FileError(said)


def read_shards(trainer: Trainer, folder: Path) -> dict[str, Any]:
    """Return the content of a checkpoint, with the tensors that parts of this process use; others have shapes only."""
    files = [_read_shard(folder / name) for name in _index(folder)["files"]]
    try:
        return _content(trainer, folder, files)
    except (KeyError, TypeError, ValueError, AttributeError, RuntimeError) as fault:
        raise FileError(f"{folder}: the shards do not fit together ({type(fault).__name__}: {fault})") from None


def _index(folder: Path) -> dict[str, Any]:
    path = folder / INDEX
    try:
        index = json.loads(path.read_text())
    except FileNotFoundError:
        raise FileError(f"there is no {path}: the folder holds no checkpoint, or one that was not finished") from None
    except (OSError, ValueError) as fault:
        raise FileError(f"cannot read {path}: {fault}") from None
    if not isinstance(index, dict) or index.get("hyperplace") != KIND or index.get("version") != VERSION:
        raise FileError(f"{path} is not the index of a checkpoint of version {VERSION}")
    names = index.get("files")
    if not (isinstance(names, list) and all(isinstance(n, str) and Path(n).name == n for n in names)):
        raise FileError(f"{path}: files are not a list of names in this folder")
    return index


def _read_shard(path: Path) -> dict[str, Any]:
    if not path.exists():
        raise FileError(
            f"{path} is not here; every host needs all files of the folder: copy it from the one that has it"
        )
    try:
        shard = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except Exception as fault:  # whatever torch or pickle raise at bytes that are not what they seem
        reason = " ".join(str(fault).split())[:200] or type(fault).__name__
        raise FileError(f"cannot read the shard {path}: {reason}; is it one, and whole?") from None
    if not isinstance(shard, dict) or shard.get("hyperplace") != SHARD or shard.get("version") != VERSION:
        raise FileError(f"{path} is not a shard of a checkpoint of version {VERSION}")
    return shard


def _content(trainer: Trainer, folder: Path, shards: list[dict[str, Any]]) -> dict[str, Any]:
    wanted = {
        piece.name
        for part in trainer.world.parts
        for piece in (*trainer.program.parts[part].weights.values(), *trainer.program.parts[part].buffers.values())
    }
    first = next((shard for shard in shards if shard["groups"]), shards[0])
    names = [name for name in trainer.state.shapes if name not in trainer.state.names.aliases]
    others = {name: trainer.state.shapes[name] for name in names if name not in wanted}
    model = others | dict(_joined(shards, "held", wanted)) | _rest(shards)
    average = None
    if first["average"] is not None:
        average = others | dict(_joined(shards, "held", wanted)) | dict(_joined(shards, "average", wanted))
    if missing := [name for name in names if name not in model and name not in trainer.state.names.hidden]:
        raise FileError(f"{folder} does not hold all of {missing[0]}; it is of another model, or a file is missing")
    return {
        **{key: first[key] for key in PLAIN},
        "model": trainer.state.shown(model),
        "average": average,
        "optimizer": _optimizer(shards, wanted),
        "num_batches": min(shard["num_batches"] for shard in shards),
        "extra": first["extra"],
    }


def _rest(shards: list[dict[str, Any]]) -> dict[str, Tensor]:
    return {name: tensor for shard in shards for name, tensor in shard["rest"].items()}


def _pieces(shard: Mapping[str, Any], wanted: set[str]) -> Iterator[tuple[str, Piece]]:
    for attribute, (name, shape, index, dtype) in shard["pieces"].items():
        if name in wanted:
            yield attribute, Piece(name, tuple(shape), index, dtype)


def _joined(shards: list[dict[str, Any]], kind: str, wanted: set[str]) -> Iterator[tuple[str, Tensor]]:
    """Yield the tensors of which the shards have all, put together."""
    whole: dict[str, Tensor] = {}
    found: dict[str, list[Piece]] = {}
    for shard in shards:
        for attribute, piece in _pieces(shard, wanted):
            if attribute in (shard[kind] or {}):
                tensor = shard[kind][attribute]
                whole.setdefault(piece.name, torch.empty(piece.shape, dtype=tensor.dtype))
                put_back(piece, whole[piece.name], tensor)
                found.setdefault(piece.name, []).append(piece)
    yield from ((name, tensor) for name, tensor in whole.items() if is_covered(found[name]))


def _optimizer(shards: list[dict[str, Any]], wanted: set[str]) -> dict[str, dict[str, Any]]:
    state: dict[str, dict[str, Any]] = {}
    for shard in shards:
        for attribute, piece in _pieces(shard, wanted):
            for key, value in shard["optimizer"].get(attribute, {}).items():
                add_state(state.setdefault(piece.name, {}), key, value, piece)
    return state


def add_state(whole: dict[str, Any], key: str, value: Any, piece: Piece) -> None:
    """Add what an optimizer remembers of a piece to what is known of the whole; numbers are the same on every part."""
    if isinstance(value, Tensor) and tuple(value.shape) == piece.sizes:
        whole.setdefault(key, torch.zeros(piece.shape, dtype=value.dtype))
        put_back(piece, whole[key], value)
    else:
        whole[key] = value
