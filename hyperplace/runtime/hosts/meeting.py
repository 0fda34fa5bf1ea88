"""What all processes of a run must have in common, in words that can be compared, and how they find each other."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import version

import torch
import torch.distributed as dist
from torch import Tensor

from hyperplace.errors import TrainingError, UsageError
from hyperplace.runtime.hosts.joining import own_heart
from hyperplace.runtime.hosts.processes import Processes, default_store
from hyperplace.runtime.hosts.world import Alone, World
from hyperplace.runtime.run_settings import RunSettings
from hyperplace.runtime.weights import Training
from hyperplace.values.arguments import count_faults
from hyperplace.values.program import Program

SHOWN = 12  # digits of a digest: enough to see that two differ

Facts = dict[str, dict[str, str]]  # by topic and name


def met_world(
    program: Program,
    state: Mapping[str, Tensor],
    settings: RunSettings,
    training: Training,
    parts_per_process: int = 1,
) -> World:
    """Return the processes that torch.distributed knows of, once all have come with the same, or the one there is."""
    check_size(len(program.parts), parts_per_process)
    if not is_joined():
        return Alone(len(program.parts))
    processes = Processes(len(program.parts), parts_per_process, heart=own_heart(), store=default_store())
    own = facts(program, state, settings, training)
    known = [json.loads(text) for text in processes.met("compile", json.dumps(own))]
    for topic in own:
        if difference := _difference([one[topic] for one in known]):
            raise TrainingError(f"the ranks do not have the same {topic}: {difference}")
    processes.connect()
    return processes


def is_joined() -> bool:
    """Say whether torch.distributed knows of several processes, this one among them."""
    return dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1


def check_size(num_parts: int, parts_each: int) -> None:
    """Refuse a plan of other parts than there are processes for; one that is alone has all parts anyway."""
    if faults := [*count_faults("parts_per_process", parts_each)]:
        raise UsageError(f"{faults[0]}; leave it out for one part in each process")
    if not is_joined():
        if parts_each not in (1, num_parts):
            raise UsageError(
                f"parts_per_process {parts_each} is for several processes, but this one is alone and has all "
                f"{num_parts} parts; start it under torchrun, or leave it out"
            )
        return
    if (size := dist.get_world_size()) * parts_each == num_parts:
        return
    each = f" with {parts_each} parts each" if parts_each > 1 else ""
    hint = f", or give parts_per_process={num_parts // size}" if num_parts % size == 0 else ""
    raise TrainingError(
        f"ranks 0 to {size - 1}: the plan has {num_parts} parts, but there are {size} processes{each}; start "
        f"{num_parts}{hint}"
    )


def check_survive(survive: int, num_parts: int, parts_each: int, *, door: int | None = None, spare: str = "") -> None:
    """Refuse to outlive more processes than can be lost, or to let others in where nobody can be missing."""
    if (door is not None or spare) and not survive:
        raise UsageError("a door and spares are for runs that may lose hosts; give survive, such as 1")
    if spare and is_joined():
        raise UsageError("a spare is no rank of torchrun; start it by itself, or leave spare out")
    if door is not None and not 0 < door < 2**16:
        raise UsageError(f"door {door} is not a port; give such as 29600")
    if survive and not spare and not is_joined():
        raise UsageError(f"survive={survive} is for several processes, of which some may be lost; leave it out")
    if survive and not survive * parts_each < num_parts:
        raise UsageError(
            f"survive={survive} would leave nobody of {num_parts // parts_each} processes; give less than their number"
        )


def facts(program: Program, state: Mapping[str, Tensor], settings: RunSettings, training: Training) -> Facts:
    """Return what must be the same in every process, by the words in which a difference is told."""
    flow = {name: str(value) for name, value in asdict(settings).items() if name not in ("devices", "threads")}
    flow |= {name: str(getattr(training, name)) for name in ("clip_norm", "clip_part_norm", "stash")}
    shapes = {name: f"{tuple(tensor.shape)} {tensor.dtype}" for name, tensor in state.items()}
    return {
        "versions": {"torch": torch.__version__, "hyperplace": version("hyperplace")},
        "model": shapes,
        "plan": {f"part {number}": _digest(part) for number, part in enumerate(program.parts)}
        | {"the rest": _digest((program.name, program.inputs, program.messages, program.batch))},
        "settings": flow,
        "weights (call torch.manual_seed before the model is made)": {
            name: f"{torch.hash_tensor(tensor.detach()).item():x}" for name, tensor in state.items()
        },
    }


def _digest(value: object) -> str:
    return hashlib.sha256(repr(value).encode()).hexdigest()[:SHOWN]


def _difference(of_ranks: Sequence[Mapping[str, str]]) -> str:
    """Say what ranks have differently, and which has what."""
    for name in dict.fromkeys(name for one in of_ranks for name in one):
        values = [one.get(name, "missing") for one in of_ranks]
        if len(set(values)) > 1:
            return f"{name} is " + ", ".join(f"{value} at rank {number}" for number, value in enumerate(values))
    return ""
