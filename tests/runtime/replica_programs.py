"""Programs with copies of weights: chains of tanh layers whose rows are split over parts, and what they should compute.

Programs are made here without lowering anything. A layer has a weight of two by two; its users hold consecutive rows,
and its owner may be any part.
"""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import torch

from hyperplace.runtime import (
    Copy,
    Feed,
    Keep,
    Message,
    Output,
    Part,
    Piece,
    Receive,
    RunSettings,
    Segment,
    Send,
    Trainer,
    Training,
    program,
)

BATCH = 4
LR = 0.05


@dataclass(frozen=True)
class Layer:
    """A layer's users, which have its rows in this order, the owner of its weight, and the work of one row.

    With the hosts of all parts, users on another host than the owner's exchange the weight by the first of them.
    """

    users: tuple[int, ...]
    owner: int
    work: int = 3
    hosts: tuple[int, ...] = ()

    def relay(self, part):
        """Return by whom a user exchanges the weight, itself if others do so by it; None where that is the owner."""
        if not self.hosts or self.hosts[part] == self.hosts[self.owner]:
            return None
        there = [user for user in self.users if self.hosts[user] == self.hosts[part]]
        return there[0] if len(there) > 1 else None

    def rows(self, part):
        place = self.users.index(part)
        return place * BATCH // len(self.users), (place + 1) * BATCH // len(self.users)

    def holders(self, low, high):
        """Return the users that have some of the rows."""
        return [q for q in self.users if self.rows(q)[0] < high and self.rows(q)[1] > low]


def data_parallel(num_parts, hosts=()):
    """Return two layers on all parts; part 0 owns one and the first of the last host, or part 1, the other."""
    everyone = tuple(range(num_parts))
    return (Layer(everyone, 0, hosts=hosts), Layer(everyone, hosts.index(hosts[-1]) if hosts else 1, hosts=hosts))


def random_layers(seed, num_hosts=0):
    """Return some layers over two to four parts, each on some of them; or over four parts, on so many hosts."""
    rng = np.random.default_rng(seed)
    num_parts = 4 if num_hosts else int(rng.integers(2, 5))
    hosts = tuple(map(int, rng.integers(0, num_hosts, num_parts))) if num_hosts else ()
    layers = []
    for _ in range(int(rng.integers(2, 6))):
        users = rng.permutation(num_parts)[: int(rng.integers(1, num_parts + 1))]
        owner = rng.choice(users) if rng.random() < 0.8 else rng.integers(num_parts)
        layers.append(Layer(tuple(map(int, users)), int(owner), int(rng.integers(0, 30)), hosts))
    return tuple(layers)


def num_parts_of(layers):
    return 1 + max(max(*layer.users, layer.owner) for layer in layers)


def program_of(layers, loss_part=0):
    """Return the program; the loss is on one part, to which all outputs go."""
    messages = _messages(layers, loss_part)
    numbers = {(message.name, message.source, message.target): message.number for message in messages}
    parts = tuple(_part(layers, p, loss_part, numbers) for p in range(num_parts_of(layers)))
    return program("chain", inputs=((2,),), parts=parts, batch=BATCH, messages=messages)


def _readers(layers, n, part, loss_part):
    """Return the parts that read a user's rows of a layer."""
    return [loss_part] if n + 1 == len(layers) else layers[n + 1].holders(*layers[n].rows(part))


def _messages(layers, loss_part):
    found = []
    for n, layer in enumerate(layers):
        for p in layer.users:
            rows = layer.rows(p)
            shape, planned = (rows[1] - rows[0], 2), n + 1 < len(layers)
            found += [
                Message(0, f"h{n}", p, q, shape, "float64", rows, planned=planned)
                for q in _readers(layers, n, p, loss_part)
                if q != p
            ]
    return tuple(replace(message, number=number) for number, message in enumerate(found))


def _part(layers, p, loss_part, numbers):
    """Return the class of a part."""

    def take(n, source):
        return Keep(f"h{n}") if source == p else Receive(numbers[f"h{n}", source, p])

    def give(n, target):
        return Keep(f"h{n}") if target == p else Send(numbers[f"h{n}", p, target])

    def copy(n, layer):
        relay = layer.relay(p)
        return Copy(f"w{n}", (2, 2), owner=layer.owner, via=None if relay == p else relay)

    weights = {
        f"w{n}": Piece(f"w{n}", (2, 2)) if layer.owner == p else copy(n, layer)
        for n, layer in enumerate(layers)
        if p == layer.owner or p in layer.users
    }
    segments, methods = [], {}
    for n, layer in enumerate(layers):
        if p not in layer.users:
            continue
        low, high = layer.rows(p)
        before = layers[n - 1].holders(low, high) if n else []
        takes = tuple(take(n - 1, q) for q in before) if n else (Feed(0, "0:2", (low, high)),)
        gives = tuple(give(n, q) for q in _readers(layers, n, p, loss_part))
        work = layer.work * (high - low)
        one = Segment(f"s{n}", takes, gives, (f"layer {n}",), (f"w{n}",), forward=work / 3, backward=work * 2 / 3)
        segments.append(one)
        cut = (low, high, layers[n - 1].rows(before[0])[0]) if n else None
        methods[one.name] = _layer_method(n, cut, len(gives))
    if p == loss_part:
        takes = tuple(take(len(layers) - 1, q) for q in layers[-1].users)
        segments.append(Segment("join", takes, (Output(0),), ("join",), (), forward=1 / 3, backward=2 / 3))
        methods["join"] = _join
    return type(f"Part{p}", (Part,), {"weights": weights, "segments": tuple(segments), **methods})


def _layer_method(n, cut, count):
    """Return the method of a layer that cuts these rows out of what it takes, and gives its result so many times."""

    def method(self, *pieces):
        self.step = f"layer {n}", "its rows"
        x = torch.cat(pieces)[self.rows(*cut)] if cut else pieces[0]
        y = torch.tanh(x @ getattr(self, f"w{n}").t())
        return (y,) * count

    return method


def _join(self, *pieces):
    self.step = "join", "all"
    return (torch.cat(pieces),)


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
        Segment("one", (Feed(0, "0:2", (0, 2)),), (Keep("h"),), ("w",), ("w",), forward=1, backward=2),
        Segment(
            "two",
            (Keep("h"), Receive(0), Receive(1), Receive(2)),
            (Output(0),),
            ("v",),
            ("v",),
            forward=1,
            backward=2,
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
    segments = (Segment("one", (Feed(0, "0:2", (2, 4)),), (Send(0),), ("w",), ("copy",), forward=1, backward=2),)

    def one(self, x):
        return (torch.tanh(x @ self.copy.t()),)


class Even(Part):
    """Filter 0, its own, on all rows, and filter 2 on the last two."""

    weights: ClassVar = {"w": Piece("w", (4, 2), "0:1"), "copy": Copy("w", (4, 2), "2:3", owner=0)}
    segments = (
        Segment("one", (Feed(0, "0:2"),), (Send(1),), ("w",), ("w",), forward=1, backward=2),
        Segment("two", (Feed(0, "0:2", (2, 4)),), (Send(2),), ("w",), ("copy",), forward=1, backward=2),
    )

    def one(self, x):
        return (torch.tanh(x @ self.w.t()),)

    def two(self, x):
        return (torch.tanh(x @ self.copy.t()),)


SLICED = program(
    "sliced",
    inputs=((2,),),
    parts=(Owner, Odd, Even),
    batch=4,
    messages=(
        Message(0, "odd", source=1, target=0, shape=(2, 2), dtype="float64", rows=(2, 4)),
        Message(1, "zero", source=2, target=0, shape=(4, 1), dtype="float64", rows=(0, 4)),
        Message(2, "even", source=2, target=0, shape=(2, 1), dtype="float64", rows=(2, 4)),
    ),
)
