"""A habit: one thing people write in models, as the smallest model that has it.

`@habit` registers the function below it as the forward of a model. Its members are made by calling what is given; its
inputs are shapes without rows, or functions from rows to a tensor. What becomes of a habit is never written by hand:
the harness finds out.
"""

import copy
import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

BATCH = 6  # the planned rows; other numbers of rows are in the harness
MAP = (4, 8, 8)  # channels, height and width of an input unless told otherwise
HABITS: "dict[str, Habit]" = {}


class Net(nn.Module):
    """A model whose forward is the given function of (model, *inputs)."""

    def __init__(self, function: Callable[..., Any], members: dict[str, Any]) -> None:
        super().__init__()
        self.function = function
        for name, member in members.items():
            if isinstance(member, Buffer):
                self.register_buffer(name, member.tensor, persistent=member.persistent)
            else:
                setattr(self, name, member)

    def forward(self, *inputs: Any, **named: Any) -> Any:
        return self.function(self, *inputs, **named)


@dataclass(frozen=True)
class Buffer:
    """A tensor to be registered as a buffer."""

    tensor: torch.Tensor
    persistent: bool = True


@dataclass(frozen=True)
class Habit:
    """A model with its inputs; `loss` and `tolerance` only where the harness's own do not serve."""

    name: str
    theme: str
    make: Callable[[], nn.Module]
    inputs: tuple[Any, ...] | dict[str, Any]
    is_random: bool = False  # draws random numbers while training: only repeatability and means are compared
    tolerance: float = 1e-9
    loss: Callable[..., torch.Tensor] | None = None
    cast: bool = True  # whether the model is turned to float64; without, it stays in the dtype it is written in

    def model(self) -> nn.Module:
        """Return the model, in training mode but for what it froze itself, the same at every call."""
        torch.manual_seed(0)
        net = self.make()
        return net.double() if self.cast else net

    def sample(self, rows: int, seed: int = 0) -> tuple[Any, ...] | dict[str, Any]:
        """Return inputs of so many rows."""
        generator = torch.Generator().manual_seed(1000 * seed + rows)
        dtype = torch.float64 if self.cast else torch.float32
        if isinstance(self.inputs, dict):
            return {name: _drawn(one, rows, generator, dtype) for name, one in self.inputs.items()}
        return tuple(_drawn(one, rows, generator, dtype) for one in self.inputs)


def _drawn(one: Any, rows: int, generator: torch.Generator, dtype: torch.dtype) -> Any:
    """Return a tensor, or a container of tensors, of so many rows."""
    if callable(one):
        return one(rows, generator)
    if isinstance(one, dict):
        return {name: _drawn(inner, rows, generator, dtype) for name, inner in one.items()}
    if isinstance(one, list):
        return [_drawn(inner, rows, generator, dtype) for inner in one]
    return torch.randn(rows, *one, generator=generator, dtype=dtype)


def habit(
    *shapes: Any,
    named: dict[str, Any] | None = None,
    is_random: bool = False,
    tolerance: float = 1e-9,
    loss: Callable[..., torch.Tensor] | None = None,
    cast: bool = True,
    name: str | None = None,
    after: Callable[[nn.Module], object] = lambda net: None,
    **members: Callable[[], Any],
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register the function below as the forward of a model; `after` works on the finished model (ties, freezing)."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        def make() -> nn.Module:
            net = Net(function, {key: member() for key, member in members.items()}).train()
            after(net)
            return net

        own, theme = name or function.__name__, function.__module__.removeprefix("habits_")
        assert own not in HABITS, own
        HABITS[own] = Habit(own, theme, make, named or shapes or (MAP,), is_random, tolerance, loss, cast)
        return function

    return register


def conv(channels: int = 4, filters: int = 6, kernel: int = 3, **options: Any) -> Callable[[], nn.Module]:
    padding = options.pop("padding", kernel // 2)
    return lambda: nn.Conv2d(channels, filters, kernel, padding=padding, **options)


def linear(channels: int, filters: int, **options: Any) -> Callable[[], nn.Module]:
    return lambda: nn.Linear(channels, filters, **options)


def bn(channels: int = 6, **options: Any) -> Callable[[], nn.Module]:
    return lambda: nn.BatchNorm2d(channels, **options)


def parameter(*shape: int) -> Callable[[], nn.Parameter]:
    return lambda: nn.Parameter(torch.randn(shape) * 0.5 + 1)


def buffer(make: Callable[[], torch.Tensor], persistent: bool = True) -> Callable[[], Buffer]:
    return lambda: Buffer(make(), persistent)


def zeros(*shape: int, persistent: bool = True) -> Callable[[], Buffer]:
    return buffer(lambda: torch.zeros(shape), persistent)


def ones(*shape: int, persistent: bool = True) -> Callable[[], Buffer]:
    return buffer(lambda: torch.ones(shape), persistent)


def fixed(*shape: int, seed: int = 3) -> torch.Tensor:
    """Return a tensor of numbers that depend on the shape alone."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def frozen(*names: str) -> Callable[[nn.Module], object]:
    """Return what stops the gradients of the members of these names."""
    return lambda net: [getattr(net, name).requires_grad_(False) for name in names]


def copies(of: nn.Module, count: int) -> nn.ModuleList:
    return nn.ModuleList(copy.deepcopy(of) for _ in range(count))


def tokens(length: int, words: int) -> Callable[[int, torch.Generator], torch.Tensor]:
    """Return what draws rows of word numbers."""
    return lambda rows, generator: torch.randint(0, words, (rows, length), generator=generator)


def flat(outputs: Any) -> list[torch.Tensor]:
    """Return the tensors of whatever a model returns."""
    if isinstance(outputs, torch.Tensor):
        return [outputs]
    if outputs is None or isinstance(outputs, int | float | str):
        return []
    inner = outputs.values() if isinstance(outputs, dict) else outputs
    return list(itertools.chain.from_iterable(flat(one) for one in inner))
