"""What a random model may do next that went wrong before: state, rows, constants near the batch, writes, ties."""

import torch
from habit import BATCH
from random_draft import Draft, Function, RandomModel
from random_layers import call_layer
from torch import Tensor, nn
from torch.nn import functional as F

CONSTANTS = (BATCH - 1, BATCH, BATCH + 1, 2 * BATCH, 3 * BATCH)


def write_in_place(draft: Draft, at: int) -> None:
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


def write_into_zeros(draft: Draft, at: int) -> None:
    def shifted(net: RandomModel, x: Tensor) -> Tensor:
        out = torch.zeros_like(x)
        out[:, :, 1:] = x[:, :, :-1]
        return out

    draft.add("shift into zeros", (at,), shifted)


def call_again(draft: Draft, at: int) -> None:
    """Call a module a second time."""
    fits = [
        name
        for name, module in draft.model.layers.items()
        if isinstance(module, nn.Conv2d | nn.BatchNorm2d)
        and (module.in_channels if isinstance(module, nn.Conv2d) else module.num_features) == draft.shapes[at][0]
    ]
    if fits and draft.shapes[at][1] >= 2:
        name = draft.chance.choice(fits)
        draft.add(f"{name} again", (at,), call_layer(name))


def batch_constant(draft: Draft, at: int) -> None:
    """Bring in a number near the planned batch."""
    n = draft.chance.choice(CONSTANTS)
    kinds: dict[str, Function] = {
        "times full(channels).sqrt()": lambda net, x: x * torch.full((x.shape[1], 1, 1), 2.0, dtype=x.dtype).sqrt(),
        f"times ones({n}).sum() / {n}": lambda net, x: x * torch.ones(n, dtype=x.dtype).sum() / n,
        f"plus arange({n}).mean()": lambda net, x: x + torch.arange(n, dtype=x.dtype).mean() / n,
        f"expand to {n} and mean": lambda net, x: x.unsqueeze(2).expand(-1, -1, n, -1, -1).mean(2),
        f"repeat to {n} in front and sum": lambda net, x: x.unsqueeze(1).repeat(1, n, 1, 1, 1).sum(1) / n,
        f"matmul with ones(8 or less, {n})": lambda net, x: x + (x @ torch.ones(x.shape[-1], n, dtype=x.dtype)).mean(),
    }
    kind = draft.chance.choice(list(kinds))
    draft.add(kind, (at,), kinds[kind])


def use_rows(draft: Draft, at: int) -> None:
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


def fold_into_rows(draft: Draft, at: int) -> None:
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


def write_state(draft: Draft, at: int) -> None:
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


def count(draft: Draft, at: int) -> None:
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


def lifted_tensor(draft: Draft, at: int) -> None:
    """Use a tensor that is written as numbers in forward: as a factor, or to pick channels."""
    channels = draft.shapes[at][0]
    order = draft.chance.sample(range(channels), channels)
    kinds: dict[str, Function] = {
        "times a tensor of numbers": lambda net, x: (
            x * torch.tensor([1.0 + n for n in order], dtype=x.dtype).view(-1, 1, 1)
        ),
        "channels by a list": lambda net, x: x[:, order],
        "channels by a tensor": lambda net, x: x.index_select(1, torch.tensor(order)),
    }
    kind = draft.chance.choice(list(kinds))
    draft.add(f"{kind} {order}", (at,), kinds[kind])


def without_gradient(draft: Draft, at: int) -> None:
    """Divide by what a block without gradients computes."""

    def scaled(net: RandomModel, x: Tensor) -> Tensor:
        with torch.no_grad():
            largest = x.abs().amax((2, 3), keepdim=True) + 1
        return x / largest

    draft.add("divide by a maximum under no_grad", (at,), scaled)
