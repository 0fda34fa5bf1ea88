"""What a random model may do next: layers, branches, and ways of channels."""

import torch
from habit import BATCH
from random_draft import Draft, Function, RandomModel
from torch import Tensor, nn
from torch.nn import functional as F


def conv(draft: Draft, at: int) -> None:
    channels, size, _ = draft.shapes[at]
    groups = draft.chance.choice([g for g in (1, 1, 1, 2, channels) if channels % g == 0])
    filters = draft.chance.choice([f for f in (2, 4, BATCH, 8, 2 * BATCH) if f % groups == 0] or [channels])
    kernel = draft.chance.choice((1, 3))
    stride = draft.chance.choice((1, 1, 2)) if size >= 4 else 1
    bias = draft.chance.random() < 0.7
    module = nn.Conv2d(channels, filters, kernel, stride, kernel // 2, groups=groups, bias=bias)
    name = draft.layer(module)
    text = f"{name} conv {channels}->{filters} {kernel}x{kernel} stride {stride} groups {groups}"
    if draft.chance.random() < 0.1:
        module.requires_grad_(False)
        text += " frozen"
    draft.add(text, (at,), call_layer(name), fresh=True)


def call_layer(name: str) -> Function:
    return lambda net, x: net.layers[name](x)


def transposed(draft: Draft, at: int) -> None:
    channels = draft.shapes[at][0]
    name = draft.layer(nn.ConvTranspose2d(channels, 4, 2, stride=1))
    draft.add(f"{name} transposed conv {channels}->4", (at,), call_layer(name), fresh=True)


def norm(draft: Draft, at: int) -> None:
    channels = draft.shapes[at][0]
    kinds = {
        "batch norm": lambda: nn.BatchNorm2d(channels),
        "instance norm": lambda: nn.InstanceNorm2d(channels, affine=True),
        "group norm": lambda: nn.GroupNorm(2 if channels % 2 == 0 else 1, channels),
        "layer norm": lambda: nn.LayerNorm(list(draft.shapes[at])),
    }
    kind = draft.chance.choice(list(kinds))
    name = draft.layer(kinds[kind]())
    if draft.chance.random() < 0.1:
        draft.stopped.append(name)
        kind += " in evaluation mode"
    draft.add(f"{name} {kind}", (at,), call_layer(name))


def activation(draft: Draft, at: int) -> None:
    kind = draft.chance.choice((F.relu, torch.tanh, F.gelu, F.silu, torch.sigmoid))
    draft.add(kind.__name__, (at,), lambda net, x: kind(x))


def pool(draft: Draft, at: int) -> None:
    if draft.shapes[at][1] < 4:
        return
    kind = draft.chance.choice((F.max_pool2d, F.avg_pool2d))
    draft.add(kind.__name__, (at,), lambda net, x: kind(x, 2))


def resize(draft: Draft, at: int) -> None:
    if draft.shapes[at][1] > 8:
        return
    mode = draft.chance.choice(("nearest", "bilinear"))
    draft.add(f"interpolate {mode}", (at,), lambda net, x: F.interpolate(x, size=(8, 8), mode=mode))


def join_two(draft: Draft, at: int) -> None:
    """Add, multiply or concatenate two values of one size."""
    shape = draft.shapes[at]
    others = [n for n in draft.maps() if draft.shapes[n][1:] == shape[1:]]
    other = draft.chance.choice(others)
    if draft.shapes[other] == shape and draft.chance.random() < 0.7:
        kind = draft.chance.choice((torch.add, torch.mul, torch.maximum))
        draft.add(kind.__name__, (at, other), lambda net, x, y: kind(x, y))
    else:
        draft.add("cat channels", (at, other), lambda net, x, y: torch.cat([x, y], 1))


def gate(draft: Draft, at: int) -> None:
    channels = draft.shapes[at][0]
    name = draft.layer(nn.Linear(channels, channels))
    draft.add(f"{name} gate", (at,), lambda net, x: x * net.layers[name](x.mean((2, 3))).sigmoid()[:, :, None, None])


def scale(draft: Draft, at: int) -> None:
    channels = draft.shapes[at][0]
    name = f"scale{len(list(draft.model.parameters()))}"
    shape = draft.chance.choice(((1,), (channels, 1, 1), (1, channels, 1, 1)))
    draft.model.register_parameter(name, nn.Parameter(torch.rand(shape) + 0.5))
    draft.add(f"times parameter {name} {shape}", (at,), lambda net, x: x * getattr(net, name))


def cut(draft: Draft, at: int) -> None:
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


def attention(draft: Draft, at: int) -> None:
    """Let positions look at each other, with channels as features."""
    channels, height, width = draft.shapes[at]
    if height * width > 64:
        return
    name = draft.layer(nn.Linear(channels, 3 * channels))

    def attended(net: RandomModel, x: Tensor) -> Tensor:
        q, k, v = net.layers[name](x.flatten(2).transpose(1, 2)).chunk(3, -1)
        return F.scaled_dot_product_attention(q, k, v).transpose(1, 2).unflatten(2, (height, width))

    draft.add(f"{name} attention", (at,), attended)
