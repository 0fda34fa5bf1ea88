"""Programs with copies of weights: chains of tanh layers whose rows are split over parts, and what they should compute.

The text of a program is written out here, without the generator. A layer has a weight of two by two; its users hold
consecutive rows, and its owner may be any part.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch

from hyperplace.runtime import (
    Copy,
    Feed,
    Keep,
    Output,
    Part,
    Piece,
    Program,
    Receive,
    RunSettings,
    Segment,
    Send,
    Trainer,
    Training,
)
from hyperplace.runtime.load import load_program

BATCH = 4
LR = 0.05


@dataclass(frozen=True)
class Layer:
    """A layer's users, which have its rows in this order, the owner of its weight, and the work of one row."""

    users: tuple[int, ...]
    owner: int
    work: int = 3

    def rows(self, part):
        place = self.users.index(part)
        return place * BATCH // len(self.users), (place + 1) * BATCH // len(self.users)

    def holders(self, low, high):
        """Return the users that have some of the rows."""
        return [q for q in self.users if self.rows(q)[0] < high and self.rows(q)[1] > low]


def data_parallel(num_parts):
    """Return two layers on all parts; part 0 owns one and part 1 the other."""
    everyone = tuple(range(num_parts))
    return (Layer(everyone, 0), Layer(everyone, 1))


def random_layers(seed):
    """Return some layers over two to four parts, each on some of them."""
    rng = np.random.default_rng(seed)
    num_parts = int(rng.integers(2, 5))
    layers = []
    for _ in range(int(rng.integers(2, 6))):
        users = rng.permutation(num_parts)[: int(rng.integers(1, num_parts + 1))]
        owner = rng.choice(users) if rng.random() < 0.8 else rng.integers(num_parts)
        layers.append(Layer(tuple(map(int, users)), int(owner), int(rng.integers(0, 30))))
    return tuple(layers)


def num_parts_of(layers):
    return 1 + max(max(*layer.users, layer.owner) for layer in layers)


def program_of(layers, loss_part=0):
    """Return the program; the loss is on one part, to which all outputs go."""
    parts = [_part(layers, p, loss_part) for p in range(num_parts_of(layers))]
    names = ", ".join(f"Part{p}" for p in range(len(parts)))
    head = "import torch\nfrom hyperplace.runtime import *\n"
    last = f"PROGRAM = Program('chain', inputs=((2,),), parts=({names},), batch={BATCH})\n"
    return load_program("\n\n".join([head, *parts, last]))


def _part(layers, p, loss_part):
    weights = {
        f"w{n}": Piece(f"w{n}", (2, 2)) if layer.owner == p else Copy(f"w{n}", (2, 2), owner=layer.owner)
        for n, layer in enumerate(layers)
        if p == layer.owner or p in layer.users
    }
    segments, methods = [], []
    for n, layer in enumerate(layers):
        if p in layer.users:
            low, high = layer.rows(p)
            before = layers[n - 1].holders(low, high) if n else []
            of = layers[n - 1].rows(before[0])[0] if n else 0
            readers = [loss_part] if n + 1 == len(layers) else layers[n + 1].holders(low, high)
            takes = [_take(f"h{n - 1}", q, p) for q in before] if n else [Feed(0, "0:2", (low, high))]
            gives = [_give(f"h{n}", p, q, planned=n + 1 < len(layers)) for q in readers]
            segments.append(Segment(f"s{n}", tuple(takes), tuple(gives), (f"layer {n}",), layer.work * (high - low)))
            cut = f"x = torch.cat(pieces)[self.rows({low}, {high}, {of})]" if n else "x, = pieces"
            made = f"y = torch.tanh(x @ self.w{n}.t())"
            methods.append(
                f"    def s{n}(self, *pieces):\n        # layer {n}\n        {cut}\n        {made}\n"
                f"        return (y,) * {len(gives)}\n"
            )
    if p == loss_part:
        last = len(layers) - 1
        takes = [_take(f"h{last}", q, p, planned=False) for q in layers[-1].users]
        segments.append(Segment("join", tuple(takes), (Output(0),), ("join",), 1))
        methods.append("    def join(self, *pieces):\n        # join\n        return (torch.cat(pieces),)\n")
    head = f"class Part{p}(Part):\n    weights = {weights!r}\n    segments = {tuple(segments)!r}\n"
    return "\n".join([head, *methods])


def _take(name, source, part, planned=True):
    return Keep(name) if source == part else Receive(name, source=source, planned=planned)


def _give(name, part, target, planned=True):
    return Keep(name) if target == part else Send(name, target=target, planned=planned)


def weights_of(layers, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return {f"w{n}": torch.randn(2, 2, generator=generator, dtype=torch.float64) for n in range(len(layers))}


def data(count, rows=BATCH, seed=1):
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape):
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    return [(draw(rows, 2), draw(rows, 2)) for _ in range(count)]


def squared(output, target):
    return ((output - target) ** 2).mean()


def output_of(weights, x):
    """Return what the unsplit model gives; weights in the order of the layers."""
    for weight in weights:
        x = torch.tanh(x @ weight.t())
    return x


def sgd(parameters):
    return torch.optim.SGD(parameters, lr=LR)


def trainer_of(layers, *, optimizer=sgd, schedule="async", in_flight=1, stash=True, loss=squared, **settings):
    extra = {
        name: settings.pop(name) for name in ("clip_norm", "clip_part_norm", "scheduler", "average") if name in settings
    }
    training = Training(optimizer, stash=stash, **extra)
    chosen = RunSettings(schedule, in_flight, **settings)
    return Trainer(program_of(layers), weights_of(layers), training=training, loss=loss, settings=chosen)


def plain(layers, batches, optimizer=sgd, after_step=lambda weights: None):
    """Return the unsplit model's losses and weights after a plain loop."""
    weights = [torch.nn.Parameter(tensor) for tensor in weights_of(layers).values()]
    stepper, losses = optimizer(weights), []
    for x, y in batches:
        loss = squared(output_of(weights, x), y)
        loss.backward()
        stepper.step()
        stepper.zero_grad()
        after_step(weights)
        losses.append(loss.item())
    return losses, {f"w{n}": weight.detach() for n, weight in enumerate(weights)}


class Owner(Part):
    """Three of the four filters of w, on the first two rows; and v, of which there are no copies."""

    weights: ClassVar = {"w": Piece("w", (4, 2), "1:4"), "v": Piece("v", (1, 4))}
    segments = (
        Segment("one", (Feed(0, "0:2", (0, 2)),), (Keep("h"),), ("w",), 3),
        Segment(
            "two",
            (Keep("h"), Receive("odd", 1), Receive("zero", 2), Receive("even", 2)),
            (Output(0),),
            ("v",),
            3,
        ),
    )

    def one(self, x):
        return (torch.tanh(x @ self.w.t()),)

    def two(self, h, odd, zero, even):
        below = torch.cat([odd[:, :1], even, odd[:, 1:]], 1)  # filters 1, 2, 3
        return (torch.cat([zero, torch.cat([h, below])], 1) @ self.v.t(),)


class Odd(Part):
    """Filters 1 and 3 on the last two rows: two pieces of what the owner has."""

    weights: ClassVar = {"copy": Copy("w", (4, 2), "1:2+3:4", owner=0)}
    segments = (Segment("one", (Feed(0, "0:2", (2, 4)),), (Send("odd", 0),), ("w",), 3),)

    def one(self, x):
        return (torch.tanh(x @ self.copy.t()),)


class Even(Part):
    """Filter 0, its own, on all rows, and filter 2 on the last two."""

    weights: ClassVar = {"w": Piece("w", (4, 2), "0:1"), "copy": Copy("w", (4, 2), "2:3", owner=0)}
    segments = (
        Segment("one", (Feed(0, "0:2"),), (Send("zero", 0),), ("w",), 3),
        Segment("two", (Feed(0, "0:2", (2, 4)),), (Send("even", 0),), ("w",), 3),
    )

    def one(self, x):
        return (torch.tanh(x @ self.w.t()),)

    def two(self, x):
        return (torch.tanh(x @ self.copy.t()),)


SLICED = Program("sliced", inputs=((2,),), parts=(Owner, Odd, Even), batch=4)
