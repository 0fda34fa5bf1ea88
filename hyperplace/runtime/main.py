"""A generated program run from the command line: train it on made-up data and show what it does."""

import argparse
import hashlib
import math
import time
from collections.abc import Iterator, Mapping

import torch
from torch.nn import functional as F

from hyperplace.allocator import keep_memory
from hyperplace.errors import HyperplaceError
from hyperplace.files.write import open_whole
from hyperplace.processor import take_turns
from hyperplace.runtime.checkpoints.state import read_state
from hyperplace.runtime.hosts.joining import joined
from hyperplace.runtime.hosts.meeting import met_world
from hyperplace.runtime.run_settings import SCHEDULES, RunSettings
from hyperplace.runtime.runnable import Runnable
from hyperplace.runtime.trainer import Trainer
from hyperplace.runtime.weights import Training
from hyperplace.values.program import Program


def main(runnable: Runnable) -> None:
    """Train on random rows with plain SGD and print loss, speed and bytes; options are those of --help.

    Under torchrun every process runs its own parts.
    """
    program = runnable.program
    options = _options(program)
    keep_memory()
    take_turns()
    try:
        with joined():
            _run(runnable, options)
    except (HyperplaceError, OSError) as fault:
        raise SystemExit(f"error: {fault}") from None


def _run(runnable: Runnable, options: argparse.Namespace) -> None:
    program = runnable.program
    training = Training(lambda parameters: torch.optim.SGD(parameters, lr=options.lr))
    settings = RunSettings(options.schedule, options.in_flight, seed=options.seed)
    state = read_state(options.weights) if options.weights else RandomState(program, options.seed)
    world = met_world(program, state, settings, training, options.parts_per_process)
    with Trainer(runnable, state, training=training, loss=_loss, settings=settings, world=world) as trainer:
        _train(trainer, options)
        if options.save and (whole := trainer.state_dict()):
            with open_whole(options.save) as file:
                torch.save(whole, file)


def _count(text: str) -> int:
    """Return a number from 1 up, as argparse wants its types."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a whole number from 1 up")
    return int(text)


def _options(program: Program) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=f"Train {program.name} on made-up data: one thread per part, or under torchrun one process."
    )
    parser.add_argument("--steps", type=_count, default=10, help="mini-batches")
    parser.add_argument("--batch", type=_count, default=program.batch, help="rows of a mini-batch")
    parser.add_argument("--schedule", choices=SCHEDULES, default="async")
    parser.add_argument("--in-flight", type=_count, default=4, help="mini-batches under way at once")
    parser.add_argument("--lr", type=float, default=0.01, help="learning rate")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--weights", help="start from this state dict (a file of torch.save)")
    parser.add_argument("--parts-per-process", type=_count, default=1, help="under torchrun: parts of every process")
    parser.add_argument("--save", help="write the model's state dict here at the end")
    return parser.parse_args()


class RandomState(Mapping[str, torch.Tensor]):
    """Weights to begin with: scaled normal kernels, zero biases, norms that change nothing.

    A tensor is made when it is asked for, from the seed and its own name: whoever needs few of them makes few.
    """

    def __init__(self, program: Program, seed: int) -> None:
        self._seed = seed
        pieces = [piece for part in program.parts for piece in (*part.weights.values(), *part.buffers.values())]
        self._shapes = {piece.name: piece.shape for piece in pieces}

    def __len__(self) -> int:
        return len(self._shapes)

    def __iter__(self) -> Iterator[str]:
        return iter(self._shapes)

    def __getitem__(self, name: str) -> torch.Tensor:
        shape = self._shapes[name]
        if name.endswith("num_batches_tracked"):
            return torch.zeros(shape, dtype=torch.int64)
        if len(shape) > 1:
            fan_in = max(1, torch.Size(shape[1:]).numel())
            digest = hashlib.sha256(f"{self._seed} {name}".encode()).digest()
            generator = torch.Generator().manual_seed(int.from_bytes(digest[:8]))
            return torch.randn(shape, generator=generator) * math.sqrt(2 / fan_in)
        return torch.ones(shape) if name.endswith(("weight", "running_var")) else torch.zeros(shape)


def _loss(outputs: torch.Tensor | tuple[torch.Tensor, ...], target: torch.Tensor) -> torch.Tensor:
    output = outputs[0] if isinstance(outputs, tuple) else outputs
    return F.cross_entropy(output.flatten(1), target % output.flatten(1).shape[1])


def _train(trainer: Trainer, options: argparse.Namespace) -> None:
    generator = torch.Generator().manual_seed(options.seed)  # the same rows in every process
    inputs = [torch.randn(options.batch, *shape, generator=generator) for shape in trainer.program.inputs]
    target = torch.randint(2**31, (options.batch,), generator=generator)
    begin = time.perf_counter()
    losses = [trainer.step(*inputs, target) for _ in range(options.steps)]
    trainer.flush()
    seconds = time.perf_counter() - begin
    moved = sum(trainer.moved_bytes().values())
    if trainer.world.number:
        return
    print(trainer.program)
    print(trainer.schedule)
    print(f"loss {losses[0].item():.4g} -> {losses[-1].item():.4g} in {options.steps} mini-batches")
    print(f"{options.steps * options.batch / seconds:.1f} rows/s, {moved / options.steps / 2**20:.2f} MiB a mini-batch")
