"""A generated program run from the command line: train it on made-up data and show what it does."""

import argparse
import math
import time

import torch
from torch.nn import functional as F

from hyperplace.errors import FileError, HyperplaceError
from hyperplace.files.write import open_whole
from hyperplace.runtime.run_settings import SCHEDULES, RunSettings
from hyperplace.runtime.runnable import Runnable
from hyperplace.runtime.trainer import Trainer
from hyperplace.runtime.weights import Training
from hyperplace.values.program import Program


def main(runnable: Runnable) -> None:
    """Train on random rows with plain SGD and print loss, speed and bytes; options are those of --help."""
    program = runnable.program
    options = _options(program)
    training = Training(lambda parameters: torch.optim.SGD(parameters, lr=options.lr))
    try:
        torch.manual_seed(options.seed)
        settings = RunSettings(options.schedule, options.in_flight, seed=options.seed)
        state = _read_state(options.weights) if options.weights else _random_state(program)
        with Trainer(runnable, state, training=training, loss=_loss, settings=settings) as trainer:
            _train(trainer, options)
            if options.save:
                with open_whole(options.save) as file:
                    torch.save(trainer.state_dict(), file)
    except (HyperplaceError, OSError) as fault:
        raise SystemExit(f"error: {fault}") from None


def _read_state(path: str) -> dict[str, torch.Tensor]:
    try:
        state = torch.load(path, weights_only=True, map_location="cpu")
    except OSError as fault:
        raise FileError(f"cannot read {path}: {fault.strerror or fault}") from None
    except Exception as fault:  # whatever torch and pickle say of a file that is something else
        raise FileError(f"cannot read {path}: it is no state dict of torch.save ({type(fault).__name__})") from None
    if not (isinstance(state, dict) and all(isinstance(value, torch.Tensor) for value in state.values())):
        raise FileError(f"cannot use {path}: it holds no state dict; save model.state_dict() with torch.save")
    return state


def _count(text: str) -> int:
    """Return a number from 1 up, as argparse wants its types."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a whole number from 1 up")
    return int(text)


def _options(program: Program) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=f"Train {program.name} on made-up data, one thread per part.")
    parser.add_argument("--steps", type=_count, default=10, help="mini-batches")
    parser.add_argument("--batch", type=_count, default=program.batch, help="rows of a mini-batch")
    parser.add_argument("--schedule", choices=SCHEDULES, default="async")
    parser.add_argument("--in-flight", type=_count, default=4, help="mini-batches under way at once")
    parser.add_argument("--lr", type=float, default=0.01, help="learning rate")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--weights", help="start from this state dict (a file of torch.save)")
    parser.add_argument("--save", help="write the model's state dict here at the end")
    return parser.parse_args()


def _random_state(program: Program) -> dict[str, torch.Tensor]:
    """Return weights to begin with: scaled normal kernels, zero biases, norms that change nothing."""
    state: dict[str, torch.Tensor] = {}
    for part in program.parts:
        for piece in (*part.weights.values(), *part.buffers.values()):
            state.setdefault(piece.name, _random(piece.name, piece.shape))
    return state


def _random(name: str, shape: tuple[int, ...]) -> torch.Tensor:
    if name.endswith("num_batches_tracked"):
        return torch.zeros(shape, dtype=torch.int64)
    if len(shape) > 1:
        fan_in = max(1, torch.Size(shape[1:]).numel())
        return torch.randn(shape) * math.sqrt(2 / fan_in)
    return torch.ones(shape) if name.endswith(("weight", "running_var")) else torch.zeros(shape)


def _loss(outputs: torch.Tensor | tuple[torch.Tensor, ...], target: torch.Tensor) -> torch.Tensor:
    output = outputs[0] if isinstance(outputs, tuple) else outputs
    return F.cross_entropy(output.flatten(1), target % output.flatten(1).shape[1])


def _train(trainer: Trainer, options: argparse.Namespace) -> None:
    inputs = [torch.randn(options.batch, *shape) for shape in trainer.program.inputs]
    target = torch.randint(2**31, (options.batch,))
    begin = time.perf_counter()
    losses = [trainer.step(*inputs, target) for _ in range(options.steps)]
    trainer.flush()
    seconds = time.perf_counter() - begin
    moved = sum(trainer.moved_bytes().values())
    print(trainer.program)
    print(trainer.schedule)
    print(f"loss {losses[0].item():.4g} -> {losses[-1].item():.4g} in {options.steps} mini-batches")
    print(f"{options.steps * options.batch / seconds:.1f} rows/s, {moved / options.steps / 2**20:.2f} MiB a mini-batch")
