"""What every part brings to a checkpoint, how that is put together, and checkpoints that are folders of it.

A folder has a file per part, which the process of the part writes, and an index. The index names the files of one
moment and is written once all of them are there, so a folder always holds one whole checkpoint. It is read into any
plan of the model: each process takes from the files what its own parts use.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence, Set
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

import torch
from torch import Tensor

from hyperplace.errors import FileError, HyperplaceError, TrainingError
from hyperplace.files.write import open_whole, read_text, write_text
from hyperplace.runtime.checkpoints.state import State, is_covered
from hyperplace.runtime.checkpoints.tensor_file import is_marked, read_tensors, write_tensors
from hyperplace.runtime.hosts.world import World
from hyperplace.runtime.pieces import put_back
from hyperplace.runtime.rank import Rank
from hyperplace.runtime.trainer import Trainer
from hyperplace.runtime.trial import settings_of
from hyperplace.values.program import Piece

INDEX, KIND, SHARD, VERSION = "checkpoint.json", "sharded checkpoint", "checkpoint shard", 1
FILE = re.compile(r"part-\d+-of-\d+\.\d+\.pt", re.ASCII)
MOST_INDEX_BYTES = 2**20
ALIKE = ("groups", "scheduler", "num_averaged")  # of all parts that learn

Shard = Mapping[str, Any]  # what one part brings to a checkpoint


def shard_of(trainer: Trainer, rank: Rank) -> Shard:
    """Return what one part of a trainer has; the first brings along what no part has."""
    rest = trainer.state.rest if rank.number == 0 else {}
    return shard_of_rank(rank, trainer.held(rank)) | {"rest": rest}


def shard_of_rank(rank: Rank, held: Mapping[str, Tensor]) -> dict[str, Any]:
    """Return what one part has: tensors by attribute, and what its optimizer, scheduler and average remember."""
    weights, optimizer = rank.weights, rank.weights.optimizer
    owned, pieces = weights.parameters.items(), rank.table.held
    return {
        "part": rank.number,
        "pieces": {name: [piece.name, list(piece.shape), piece.index, piece.dtype] for name, piece in pieces.items()},
        "held": dict(held),
        "rest": {},
        "optimizer": {name: optimizer.state.get(one, {}) for name, one in owned} if optimizer else {},
        "groups": [settings_of(group) for group in optimizer.param_groups] if optimizer else [],
        "scheduler": weights.scheduler.state_dict() if weights.scheduler else None,
        "average": {name: one.detach() for name, one in weights.averaged().items()} if weights.average else None,
        "num_averaged": int(weights.average.n_averaged) if weights.average else 0,
        "num_batches": rank.num_done,
    }


def merged(state: State, shards: Sequence[Shard], wanted: Set[str] | None = None) -> dict[str, Any]:
    """Return the content of a checkpoint from the shards of all parts; tensors not `wanted` have shapes only."""
    wanted = state.shapes.keys() if wanted is None else wanted
    first = next((shard for shard in shards if shard["groups"]), shards[0])
    rest = {name: tensor for shard in shards for name, tensor in shard["rest"].items()}

    def model(*kinds: str) -> dict[str, Tensor]:
        """Put together the first of these kinds that a shard has of a piece."""
        pieces = (
            (piece, next(shard[kind][attribute] for kind in kinds if attribute in (shard[kind] or {})))
            for shard in shards
            for attribute, piece in _pieces(shard).items()
        )
        return state.shown(state.assembled(pieces, rest, wanted))

    return {
        **{key: first[key] for key in ALIKE},
        "model": model("held"),
        "average": None if first["average"] is None else model("average", "held"),
        "optimizer": _optimizer(shards, wanted),
        "num_batches": min(shard["num_batches"] for shard in shards),
    }


def _pieces(shard: Shard) -> dict[str, Piece]:
    return {attribute: _piece(entry) for attribute, entry in shard["pieces"].items()}


def _piece(entry: Any) -> Piece:
    """Return a piece; a tensor in place of a list would be taken apart into as many numbers as its file claims."""
    if not (isinstance(entry, list) and len(entry) == 4):
        raise TypeError("a piece is not a list of name, shape, index and dtype")
    name, shape, index, dtype = entry
    if not (isinstance(shape, list) and all(isinstance(size, int) for size in shape)):
        raise TypeError("a shape is not a list of whole numbers")
    return Piece(name, tuple(shape), index, dtype)


def _optimizer(shards: Sequence[Shard], wanted: Set[str]) -> dict[str, dict[str, Any]]:
    """Return for parameters of the model what the optimizers remember of them."""
    state: dict[str, dict[str, Any]] = {}
    for shard in shards:
        pieces = _pieces(shard)
        for attribute, known in shard["optimizer"].items():
            if (piece := pieces[attribute]).name in wanted:
                for key, value in known.items():
                    _add_state(state.setdefault(piece.name, {}), key, value, piece)
    return state


def _add_state(whole: dict[str, Any], key: str, value: Any, piece: Piece) -> None:
    """Add what an optimizer remembers of a piece to what is known of the whole; numbers are the same on every part."""
    if isinstance(value, Tensor) and tuple(value.shape) == piece.sizes:
        whole.setdefault(key, torch.zeros(piece.shape, dtype=value.dtype))
        put_back(piece, whole[key], value)
    else:
        whole[key] = value


def write_shards(trainer: Trainer, folder: Path, shards: Sequence[Shard], extra: Mapping[str, Any]) -> None:
    """Write the shards of this process's parts, then the index; all processes or none succeed."""
    num_parts = len(trainer.program.parts)
    moments = trainer.world.exchange("save_checkpoint", [shard["num_batches"] for shard in shards])
    moment = min(number for some in moments for number in some)
    names = [f"part-{part}-of-{num_parts}.{moment}.pt" for part in range(num_parts)]

    def write() -> None:
        folder.mkdir(parents=True, exist_ok=True)
        for shard in shards:
            with open_whole(folder / names[shard["part"]]) as file:
                write_tensors(file, {"hyperplace": SHARD, "version": VERSION, "extra": dict(extra), **shard})

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
        raise_everywhere(world, call, FileError(said))


def raise_everywhere(world: World, call: str, fault: HyperplaceError) -> NoReturn:
    """Raise what all processes know of, once they do: who raises first ends the run, and others hear only that."""
    with suppress(TrainingError):
        world.exchange(call, "heard")
    raise fault


def read_shards(trainer: Trainer, folder: Path) -> dict[str, Any]:
    """Return the content of a checkpoint, with the tensors that parts of this process use; others have shapes only."""
    shards = [_read_shard(folder / name) for name in _index(folder)["files"]]
    tables = [trainer.program.parts[part] for part in trainer.world.parts]
    used = {piece.name for table in tables for piece in (*table.weights.values(), *table.buffers.values())}
    wanted = used | trainer.state.rest.keys()
    try:
        _check_whole(folder, trainer.state, shards, wanted)
        return merged(trainer.state, shards, wanted) | {"extra": shards[0]["extra"]}
    except (LookupError, TypeError, ValueError, AttributeError, RuntimeError, OverflowError) as fault:
        raise FileError(f"{folder}: the shards do not fit together ({type(fault).__name__}: {fault})") from None


def _index(folder: Path) -> dict[str, Any]:
    path = folder / INDEX
    if not path.exists():
        raise FileError(f"there is no {path}: the folder holds no checkpoint, or one that was not finished")
    try:
        index = json.loads(read_text(path, MOST_INDEX_BYTES))
    except (ValueError, RecursionError) as fault:
        raise FileError(f"cannot read {path}: {fault}") from None
    if not (is_marked(index, KIND) and index["version"] == VERSION):
        raise FileError(f"{path} is not the index of a checkpoint of version {VERSION}")
    names = index.get("files")
    if not (isinstance(names, list) and all(isinstance(n, str) and FILE.fullmatch(n) for n in names)):
        raise FileError(f"{path}: files are not a list of names as hyperplace gives them to files of this folder")
    if len(set(names)) < len(names):
        raise FileError(f"{path}: files are named twice")
    return dict(index)


def _read_shard(path: Path) -> Shard:
    if not path.exists():
        raise FileError(
            f"{path} is not here; every host needs all files of the folder: copy it from the one that has it"
        )
    shard = read_tensors(path, "a shard")
    if not (is_marked(shard, SHARD) and shard["version"] == VERSION):
        raise FileError(f"{path} is not a shard of a checkpoint of version {VERSION}")
    return dict(shard)


def _check_whole(folder: Path, state: State, shards: Sequence[Shard], wanted: Set[str]) -> None:
    """Refuse shards that do not have all of what is wanted, or have it of another shape."""
    found: dict[str, list[Piece]] = {name: [] for name in wanted}
    for shard in shards:
        for attribute, piece in _pieces(shard).items():
            if piece.name in wanted:
                found[piece.name].append(piece)
                if tuple(shard["held"][attribute].shape) != piece.sizes:
                    raise FileError(f"{folder}: a piece of {piece.name} is not {piece.sizes}; the shard was changed")
    rest = {name: tensor for shard in shards for name, tensor in shard["rest"].items()}
    if other := next((n for n, t in rest.items() if n in wanted and t.shape != state.shapes[n].shape), None):
        raise FileError(f"{folder}: {other} is not {tuple(state.shapes[other].shape)}; it belongs to another model")
    known = rest.keys() | state.names.hidden
    for name, pieces in found.items():
        shape = tuple(state.shapes[name].shape)
        if other := next((piece.shape for piece in pieces if piece.shape != shape), None):
            raise FileError(f"{folder}: {name} is {other}, not {shape}; it belongs to another model")
        if not (name in known or is_covered(pieces)):
            raise FileError(f"{folder} does not hold all of {name}; it is of another model, or a file is missing")
