"""A random model while it is drawn: its operations so far, and the shapes of their results."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

Function = Callable[["RandomModel", Tensor], Tensor]


@dataclass(frozen=True)
class Op:
    """One operation: what it takes (numbers of earlier values), what it does, and how it reads in a printout."""

    text: str
    takes: tuple[int, ...]
    function: Callable[..., Tensor]


class RandomModel(nn.Module):
    """A list of operations; value n is input n, or the result of the operation after it."""

    def __init__(self, num_inputs: int) -> None:
        super().__init__()
        self.num_inputs, self.ops, self.outputs = num_inputs, [], []
        self.layers = nn.ModuleDict()
        self.input_shapes: list[tuple[int, ...]] = []
        self.names_outputs = False

    def forward(self, *inputs: Tensor) -> Any:
        values = list(inputs)
        for op in self.ops:
            values.append(op.function(self, *(values[n] for n in op.takes)))
        results = tuple(values[n] for n in self.outputs)
        if self.names_outputs:
            return {f"v{n}": values[n] for n in self.outputs}
        return results if len(results) > 1 else results[0]

    def description(self) -> str:
        """Return the model as lines `v3 = conv 3x3(v2)`."""
        lines = [f"v{n} = input" for n in range(self.num_inputs)]
        for number, op in enumerate(self.ops, self.num_inputs):
            lines.append(f"v{number} = {op.text}({', '.join(f'v{n}' for n in op.takes)})")
        return "\n".join([*lines, f"return {', '.join(f'v{n}' for n in self.outputs)}"])


@dataclass
class Draft:
    """A model being drawn: the shapes of its values (without rows), and which may still be read."""

    chance: random.Random
    model: RandomModel
    shapes: list[tuple[int, ...]]
    spent: set[int] = field(default_factory=set)  # written in place: reading them again is another model
    fresh: set[int] = field(default_factory=set)  # results that autograd does not keep: may be written in place
    stopped: list[str] = field(default_factory=list)  # layers that stay in evaluation mode

    def add(self, text: str, takes: tuple[int, ...], function: Callable[..., Tensor], *, fresh: bool = False) -> int:
        """Append an operation; its shape is found by running it on two rows."""
        rows = [torch.rand(2, *self.shapes[n]) for n in takes]
        with torch.no_grad():
            shape = tuple(function(self.model, *rows).shape[1:])
        self.model.ops.append(Op(text, takes, function))
        self.shapes.append(shape)
        if fresh:
            self.fresh.add(len(self.shapes) - 1)
        return len(self.shapes) - 1

    def layer(self, module: nn.Module) -> str:
        """Register a module and return its name."""
        name = f"m{len(self.model.layers)}"
        self.model.layers[name] = module
        return name

    def buffer(self, name: str, tensor: Tensor) -> str:
        name = f"{name}{len(list(self.model.buffers()))}"
        self.model.register_buffer(name, tensor, persistent=self.chance.random() < 0.8)
        return name

    def maps(self) -> list[int]:
        return [n for n, shape in enumerate(self.shapes) if len(shape) == 3 and n not in self.spent]

    def last(self) -> int:
        """Return a late value: most often the last."""
        maps = self.maps()
        return maps[-1] if self.chance.random() < 0.8 else self.chance.choice(maps)
