"""Time pieces of a model on this machine: a warm-up until memory is there, then the median of some repeats."""

import re
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from hyperplace.allocator import num_faults
from hyperplace.steps.profile.pieces import Leaf, Piece, Unrunnable, map_refs
from hyperplace.values.graph import Call, Ref
from hyperplace.values.profile import Work

LEAST_REPEATS = 3
MOST_REPEATS = 20
ENOUGH_S = 0.02  # short runs are repeated for this long
LONG_S = 0.2  # two repeats that took this long are enough: the user waits
# Pages that a run with all its memory may still take anew. Some machines need 25 us for one, and without this the first
# layer of a process pays for the memory of all: once it took six times what it takes later.
FEW_FAULTS = 100
MOST_WARM_UPS = 10

_ATEN = re.compile(r"aten\.(\w+)\.(\w+)")
_TORCH_CONSTANT = re.compile(r"torch\.(\w+)")
_DEVICE = re.compile(r"(cpu|meta|cuda|mps|xpu)(:\d+)?")


@dataclass(frozen=True)
class Times:
    """Medians in seconds."""

    passes_s: Work  # forward and backward
    repeats: int
    spread: float  # (slowest - fastest) / median of forward and backward together


def time_piece(piece: Piece, device: str) -> Times:
    """Run the piece forward and backward; raise Unrunnable where it does not run on tensors we make up."""
    try:
        functions = [_function(call.op) for call in piece.calls]
        leaves = {leaf.name: _made(leaf, device) for leaf in piece.leaves}
        return _times(_repeated(lambda: _run(piece, functions, leaves, device)))
    except Unrunnable:
        raise
    except Exception as fault:  # whatever an operation raises on tensors it was not written for
        reason = str(fault).strip().partition("\n")[0]
        raise Unrunnable(f"{type(fault).__name__}: {reason}") from fault


def time_update(shapes: Sequence[tuple[int, ...]], device: str) -> float:
    """Return the seconds of a step of SGD with momentum, as CNNs are mostly trained, on parameters of these shapes."""
    if not shapes:
        return 0.0
    parameters = [torch.nn.Parameter(torch.full(shape, 0.01, device=device)) for shape in shapes]
    for parameter in parameters:
        parameter.grad = torch.ones_like(parameter)
    optimizer = torch.optim.SGD(parameters, lr=1e-6, momentum=0.9)

    def step() -> tuple[float, float]:
        start = now(device)
        optimizer.step()
        return 0.0, now(device) - start

    return _times(_repeated(step)).passes_s.total


def now(device: str) -> float:
    """Return the time once the device has done all it was given."""
    if not device.startswith("cpu"):
        torch.accelerator.synchronize()
    return time.perf_counter()


def _repeated(run: Callable[[], tuple[float, float]]) -> list[tuple[float, float]]:
    _warm_up(run)
    runs: list[tuple[float, float]] = []
    while not _is_enough(len(runs), sum(map(sum, runs))):
        runs.append(run())
    return runs


def _warm_up(run: Callable[[], tuple[float, float]]) -> None:
    """Run until a run takes no new memory, or shows that every run does."""
    spent_s = 0.0
    for _ in range(MOST_WARM_UPS):
        before = num_faults()
        spent_s += sum(run())
        if num_faults() - before <= FEW_FAULTS or spent_s >= LONG_S:
            return


def _is_enough(repeats: int, spent_s: float) -> bool:
    if repeats < LEAST_REPEATS:
        return repeats == LEAST_REPEATS - 1 and spent_s >= LONG_S
    return repeats >= MOST_REPEATS or spent_s >= ENOUGH_S


def _times(runs: list[tuple[float, float]]) -> Times:
    forward, backward = (statistics.median(column) for column in zip(*runs, strict=True))
    totals = sorted(map(sum, runs))
    middle = statistics.median(totals)
    return Times(Work(forward, backward), len(runs), (totals[-1] - totals[0]) / middle if middle else 0.0)


def _made(leaf: Leaf, device: str) -> Tensor:
    if not leaf.is_state:
        return torch.rand(leaf.shape, device=device).requires_grad_(leaf.learns)
    if not leaf.learns and leaf.element_bytes == 8:  # an index; nothing else in a float32 model is that wide
        return torch.zeros(leaf.shape, dtype=torch.int64, device=device)
    # Not random: drawing the 400 MB of VGG16's first linear layer would take longer than timing it.
    return torch.full(leaf.shape, 0.01, device=device).requires_grad_(leaf.learns)


def _function(op: str) -> Callable[..., Any]:
    match = _ATEN.fullmatch(op)
    if not match:
        raise Unrunnable(f"{op} is not an ATen operation")
    function: Callable[..., Any] = getattr(getattr(torch.ops.aten, match[1]), match[2])
    return function


def _run(
    piece: Piece, functions: list[Callable[..., Any]], leaves: dict[str, Tensor], device: str
) -> tuple[float, float]:
    """Run once and return the seconds of the forward and of the backward pass."""
    values: dict[str, Any] = dict(leaves)
    if any(call.op.split(".")[1].endswith("_") for call in piece.calls):
        # In place on a leaf is an error in torch; in the model it is never a leaf. The copy is not timed.
        values = {name: tensor.clone() for name, tensor in leaves.items()}
    start = now(device)
    for call, function in zip(piece.calls, functions, strict=True):
        values[call.value] = _called(call, function, values, device)
    forward = now(device) - start
    return forward, _backward_s(values[piece.calls[-1].value], leaves, device)


def _called(call: Call, function: Callable[..., Any], values: dict[str, Any], device: str) -> Any:
    def value_of(ref: Ref) -> Any:
        return values[ref.name]

    args = [_constant(map_refs(arg, value_of), device) for arg in call.args]
    kwargs = {name: _constant(map_refs(arg, value_of), device) for name, arg in call.kwargs}
    return function(*args, **kwargs)


def _constant(arg: Any, device: str) -> Any:
    """Return what capture wrote as text: a dtype, a layout, or the device the model was captured on."""
    if not isinstance(arg, str):
        return arg
    if match := _TORCH_CONSTANT.fullmatch(arg):
        return getattr(torch, match[1])
    return torch.device(device) if _DEVICE.fullmatch(arg) else arg


def _backward_s(result: Any, leaves: dict[str, Tensor], device: str) -> float:
    results = result if isinstance(result, list | tuple) else [result]
    outputs = [t for t in results if isinstance(t, Tensor) and t.requires_grad]
    learning = [tensor for tensor in leaves.values() if tensor.requires_grad]
    if not outputs or not learning:
        return 0.0
    seeds = [torch.ones_like(output) for output in outputs]
    start = now(device)
    torch.autograd.grad(outputs, learning, seeds, allow_unused=True)
    return now(device) - start
