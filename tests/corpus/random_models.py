"""Random models from a seed: a list of operations, drawn one by one to fit what is there, interpreted in forward.

Drawn with care for what went wrong before: constants near the planned batch and its multiples, buffers written in
every in-place form, modules called twice, rows mixed, moved and folded into other dimensions.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from habit import BATCH, Habit
from torch import Tensor, nn
from torch.nn import functional as F

Values = list[Tensor]
Function = Callable[["RandomModel", Tensor], Tensor]
CONSTANTS = (BATCH - 1, BATCH, BATCH + 1, 2 * BATCH, 3 * BATCH)


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

    def forward(self, *inputs: Tensor) -> Tensor | tuple[Tensor, ...]:
        values = list(inputs)
        for op in self.ops:
            values.append(op.function(self, *(values[n] for n in op.takes)))
        results = tuple(values[n] for n in self.outputs)
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


def random_habit(seed: int) -> Habit:
    """Return a random model as a habit that the harness runs."""
    model = random_model(seed)
    inputs = tuple(tuple(shape) for shape in model.input_shapes)
    return Habit(f"random {seed}", "random", lambda: random_model(seed), inputs)


def random_model(seed: int) -> RandomModel:
    """Return the model of a seed, in training mode."""
    torch.manual_seed(seed)
    chance = random.Random(seed)
    channels = chance.choice((2, 4, BATCH))
    shapes = [(channels, 8, 8)] * chance.choice((1, 1, 1, 2))
    model = RandomModel(len(shapes))
    model.input_shapes = list(shapes)
    draft = Draft(chance, model, list(shapes))
    _conv(draft, draft.last())
    for _ in range(chance.randint(2, 8)):
        kind = chance.choices(list(KINDS), list(KINDS.values()))[0]
        kind(draft, draft.last())
    _head(draft)
    return model.train()


def _conv(draft: Draft, at: int) -> None:
    channels, size, _ = draft.shapes[at]
    groups = draft.chance.choice([g for g in (1, 1, 1, 2, channels) if channels % g == 0])
    filters = draft.chance.choice([f for f in (2, 4, BATCH, 8, 2 * BATCH) if f % groups == 0] or [channels])
    kernel = draft.chance.choice((1, 3))
    stride = draft.chance.choice((1, 1, 2)) if size >= 4 else 1
    bias = draft.chance.random() < 0.7
    module = nn.Conv2d(channels, filters, kernel, stride, kernel // 2, groups=groups, bias=bias)
    name = draft.layer(module)
    text = f"{name} conv {channels}->{filters} {kernel}x{kernel} stride {stride} groups {groups}"
    draft.add(text, (at,), _call(name), fresh=True)


def _call(name: str) -> Function:
    return lambda net, x: net.layers[name](x)


def _transposed(draft: Draft, at: int) -> None:
    channels = draft.shapes[at][0]
    name = draft.layer(nn.ConvTranspose2d(channels, 4, 2, stride=1))
    draft.add(f"{name} transposed conv {channels}->4", (at,), _call(name), fresh=True)


def _norm(draft: Draft, at: int) -> None:
    channels = draft.shapes[at][0]
    kinds = {
        "batch norm": lambda: nn.BatchNorm2d(channels),
        "instance norm": lambda: nn.InstanceNorm2d(channels, affine=True),
        "group norm": lambda: nn.GroupNorm(2 if channels % 2 == 0 else 1, channels),
        "layer norm": lambda: nn.LayerNorm(list(draft.shapes[at])),
    }
    kind = draft.chance.choice(list(kinds))
    name = draft.layer(kinds[kind]())
    draft.add(f"{name} {kind}", (at,), _call(name))


def _activation(draft: Draft, at: int) -> None:
    kind = draft.chance.choice((F.relu, torch.tanh, F.gelu, F.silu, torch.sigmoid))
    draft.add(kind.__name__, (at,), lambda net, x: kind(x))


def _in_place(draft: Draft, at: int) -> None:
    """Write into a value that nothing else reads, and that autograd does not keep."""
    if at not in draft.fresh or any(at in op.takes for op in draft.model.ops):
        return
    kinds = {
        "relu_": lambda net, x: F.relu_(x),
        "mul_ 2": lambda net, x: x.mul_(2),
        "add_ 1": lambda net, x: x.add_(1),
        "write channel 0": lambda net, x: _written(x, (slice(None), slice(0, 1)), 0.5),
        "write column 0": lambda net, x: _written(x, (slice(None), slice(None), slice(None), 0), 0.5),
    }
    kind = draft.chance.choice(list(kinds))
    draft.add(kind, (at,), kinds[kind])
    draft.spent.add(at)


def _written(x: Tensor, index: tuple[slice | int, ...], value: float) -> Tensor:
    x[index] = value
    return x


def _into_zeros(draft: Draft, at: int) -> None:
    def shifted(net: RandomModel, x: Tensor) -> Tensor:
        out = torch.zeros_like(x)
        out[:, :, 1:] = x[:, :, :-1]
        return out

    draft.add("shift into zeros", (at,), shifted)


def _pool(draft: Draft, at: int) -> None:
    if draft.shapes[at][1] < 4:
        return
    kind = draft.chance.choice((F.max_pool2d, F.avg_pool2d))
    draft.add(kind.__name__, (at,), lambda net, x: kind(x, 2))


def _resize(draft: Draft, at: int) -> None:
    if draft.shapes[at][1] > 8:
        return
    mode = draft.chance.choice(("nearest", "bilinear"))
    draft.add(f"interpolate {mode}", (at,), lambda net, x: F.interpolate(x, size=(8, 8), mode=mode))


def _join(draft: Draft, at: int) -> None:
    """Add, multiply or concatenate two values of one size."""
    shape = draft.shapes[at]
    others = [n for n in draft.maps() if draft.shapes[n][1:] == shape[1:]]
    other = draft.chance.choice(others)
    if draft.shapes[other] == shape and draft.chance.random() < 0.7:
        kind = draft.chance.choice((torch.add, torch.mul, torch.maximum))
        draft.add(kind.__name__, (at, other), lambda net, x, y: kind(x, y))
    else:
        draft.add("cat channels", (at, other), lambda net, x, y: torch.cat([x, y], 1))


def _gate(draft: Draft, at: int) -> None:
    channels = draft.shapes[at][0]
    name = draft.layer(nn.Linear(channels, channels))
    draft.add(f"{name} gate", (at,), lambda net, x: x * net.layers[name](x.mean((2, 3))).sigmoid()[:, :, None, None])


def _again(draft: Draft, at: int) -> None:
    """Call a module a second time."""
    fits = [
        name
        for name, module in draft.model.layers.items()
        if isinstance(module, nn.Conv2d | nn.BatchNorm2d)
        and (module.in_channels if isinstance(module, nn.Conv2d) else module.num_features) == draft.shapes[at][0]
    ]
    if fits and draft.shapes[at][1] >= 2:
        name = draft.chance.choice(fits)
        draft.add(f"{name} again", (at,), _call(name))


def _constant(draft: Draft, at: int) -> None:
    """Bring in a number near the planned batch."""
    n = draft.chance.choice(CONSTANTS)
    kinds: dict[str, Function] = {
        f"times ones({n}).sum() / {n}": lambda net, x: x * torch.ones(n, dtype=x.dtype).sum() / n,
        f"plus arange({n}).mean()": lambda net, x: x + torch.arange(n, dtype=x.dtype).mean() / n,
        f"expand to {n} and mean": lambda net, x: x.unsqueeze(2).expand(-1, -1, n, -1, -1).mean(2),
        f"repeat to {n} in front and sum": lambda net, x: x.unsqueeze(1).repeat(1, n, 1, 1, 1).sum(1) / n,
        f"matmul with ones(8 or less, {n})": lambda net, x: x + (x @ torch.ones(x.shape[-1], n, dtype=x.dtype)).mean(),
    }
    kind = draft.chance.choice(list(kinds))
    draft.add(kind, (at,), kinds[kind])


def _rows(draft: Draft, at: int) -> None:
    """Use the number of rows, or mix and move them."""
    kinds: dict[str, Function] = {
        "divide by rows": lambda net, x: x / x.shape[0],
        "minus mean of rows": lambda net, x: x - x.mean(0, keepdim=True),
        "roll rows": lambda net, x: x + 0.5 * x.roll(1, 0),
        "flip rows": lambda net, x: x - 0.5 * x.flip(0),
        "softmax over rows": lambda net, x: x.softmax(0),
        "first row to all": lambda net, x: x + x[:1],
        "arange of rows": lambda net, x: x * (1 + torch.arange(x.shape[0], dtype=x.dtype)).view(-1, 1, 1, 1),
        "double rows and add halves": lambda net, x: sum(torch.cat([x, x.tanh()], 0).chunk(2, 0)),
    }
    kind = draft.chance.choice(list(kinds))
    draft.add(kind, (at,), kinds[kind])


def _fold(draft: Draft, at: int) -> None:
    """Fold positions or channels into rows, do a layer there, and unfold."""
    channels, height, width = draft.shapes[at]
    name = draft.layer(nn.Linear(width, width))

    def lines(net: RandomModel, x: Tensor) -> Tensor:
        return net.layers[name](x.reshape(-1, width)).view(-1, channels, height, width)

    def windows(net: RandomModel, x: Tensor) -> Tensor:
        y = x.transpose(1, 2).reshape(x.shape[0] * height, channels, width)
        return net.layers[name](y).view(x.shape[0], height, channels, width).transpose(1, 2)

    kind = draft.chance.choice((lines, windows))
    draft.add(f"{name} linear over {kind.__name__} as rows", (at,), kind)


def _state(draft: Draft, at: int) -> None:
    """Write a buffer, in one of many forms, and read it."""
    channels = draft.shapes[at][0]
    name = draft.buffer("state", torch.ones(channels))
    kind = draft.chance.choice(list(WRITES))
    read_first = draft.chance.random() < 0.3

    def kept(net: RandomModel, x: Tensor) -> Tensor:
        before = getattr(net, name) * 1
        WRITES[kind](net, name, x.detach().mean((0, 2, 3)))
        seen = before if read_first else getattr(net, name)
        return x + 0.1 * seen.view(-1, 1, 1)

    draft.add(f"buffer {name} {kind}, read {'before' if read_first else 'after'}", (at,), kept)


def _counter(draft: Draft, at: int) -> None:
    name = draft.buffer("count", torch.zeros((), dtype=torch.long))

    def counted(net: RandomModel, x: Tensor) -> Tensor:
        getattr(net, name).add_(1)
        return x * 1.0

    draft.add(f"count in {name}", (at,), counted)


def _lerp(net: RandomModel, name: str, new: Tensor) -> None:
    getattr(net, name).lerp_(new, 0.2)


def _plus(net: RandomModel, name: str, new: Tensor) -> None:
    setattr(net, name, getattr(net, name).add_(new))


def _decay(net: RandomModel, name: str, new: Tensor) -> None:
    getattr(net, name).mul_(0.9).add_(new, alpha=0.1)


def _assign(net: RandomModel, name: str, new: Tensor) -> None:
    setattr(net, name, 0.5 * getattr(net, name) + new)


def _copy(net: RandomModel, name: str, new: Tensor) -> None:
    getattr(net, name).copy_(new)


def _slice(net: RandomModel, name: str, new: Tensor) -> None:
    getattr(net, name)[:1] = new[-1:]


def _no_grad(net: RandomModel, name: str, new: Tensor) -> None:
    with torch.no_grad():
        getattr(net, name).sub_(0.1 * new)


WRITES = {
    "lerp_": _lerp,
    "+=": _plus,
    "mul_ add_": _decay,
    "assigned": _assign,
    "copy_": _copy,
    "slice written": _slice,
    "sub_ under no_grad": _no_grad,
}


def _scale(draft: Draft, at: int) -> None:
    channels = draft.shapes[at][0]
    name = f"scale{len(list(draft.model.parameters()))}"
    shape = draft.chance.choice(((1,), (channels, 1, 1), (1, channels, 1, 1)))
    draft.model.register_parameter(name, nn.Parameter(torch.rand(shape) + 0.5))
    draft.add(f"times parameter {name} {shape}", (at,), lambda net, x: x * getattr(net, name))


def _cut(draft: Draft, at: int) -> None:
    """Detach a branch, take a slice of channels, or turn them round."""
    channels = draft.shapes[at][0]
    kinds: dict[str, Function] = {
        "minus its detached mean": lambda net, x: x - x.detach().mean((2, 3), keepdim=True),
        "halves swapped": lambda net, x: torch.cat(x.chunk(2, 1)[::-1], 1),
        "channels reversed": lambda net, x: x.flip(1),
        "first half of channels": lambda net, x: x[:, : max(1, channels // 2)],
        "shuffle": lambda net, x: x.unflatten(1, (-1, 2)).transpose(1, 2).flatten(1, 2) if channels % 2 == 0 else x,
    }
    kind = draft.chance.choice(list(kinds))
    draft.add(kind, (at,), kinds[kind])


def _head(draft: Draft) -> None:
    """End in one or two outputs: maps, or features of a linear layer."""
    at = draft.maps()[-1]
    if draft.chance.random() < 0.7:
        name = draft.layer(nn.Linear(draft.shapes[at][0], draft.chance.choice((3, BATCH))))
        out = draft.add(f"{name} linear of means", (at,), lambda net, x: net.layers[name](x.mean((2, 3))))
    else:
        out = at
    draft.model.outputs = [out]
    if draft.chance.random() < 0.2:
        draft.model.outputs.append(draft.chance.choice([n for n in draft.maps() if n >= draft.model.num_inputs]))


KINDS = {
    _conv: 4,
    _transposed: 1,
    _norm: 3,
    _activation: 3,
    _in_place: 2,
    _into_zeros: 1,
    _pool: 1,
    _resize: 1,
    _join: 4,
    _gate: 1,
    _again: 2,
    _constant: 3,
    _rows: 2,
    _fold: 1,
    _state: 3,
    _counter: 1,
    _scale: 1,
    _cut: 2,
}
