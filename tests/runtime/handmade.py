"""Programs written by hand: small enough to follow every number."""

from typing import ClassVar

import torch

from hyperplace.runtime import Feed, Keep, Message, Output, Part, Piece, Receive, Segment, Send, program


class First(Part):
    weights: ClassVar = {"w": Piece("first", (3, 2))}
    segments = (
        Segment(
            "go", takes=(Feed(0, "0:2"),), gives=(Send(0),), layers=("first",), weights=("w",), forward=1, backward=2
        ),
    )

    def go(self, x):
        self.step = "first", "all"
        return (x @ self.w.t(),)


class Second(Part):
    weights: ClassVar = {"w": Piece("second", (1, 3))}
    segments = (
        Segment(
            "go", takes=(Receive(0),), gives=(Output(0),), layers=("second",), weights=("w",), forward=1, backward=2
        ),
    )

    def go(self, h):
        self.step = "second", "all"
        return (h @ self.w.t(),)


TWO_LINEARS = program(
    "two linears",
    inputs=((2,),),
    parts=(First, Second),
    batch=4,
    messages=(Message(0, "h", source=0, target=1, shape=(4, 3), dtype="float64", rows=(0, 4)),),
)


class Zigzag0(Part):
    """Forth and back: a on part 0, b on part 1, c on part 0 again."""

    weights: ClassVar = {"a": Piece("a", (2, 2)), "c": Piece("c", (2, 2))}
    segments = (
        Segment(
            "one",
            takes=(Feed(0, "0:2"),),
            gives=(Keep("u"), Send(0)),
            layers=("a",),
            weights=("a",),
            forward=1,
            backward=2,
        ),
        Segment(
            "two",
            takes=(Keep("u"), Receive(1)),
            gives=(Output(0),),
            layers=("c",),
            weights=("c",),
            forward=1,
            backward=2,
        ),
    )

    def one(self, x):
        self.step = "a", "all"
        u = x @ self.a
        return (u, u)

    def two(self, u, v):
        self.step = "c", "all"
        return ((u + v) @ self.c,)


class Zigzag1(Part):
    weights: ClassVar = {"b": Piece("b", (2, 2))}
    segments = (
        Segment("one", takes=(Receive(0),), gives=(Send(1),), layers=("b",), weights=("b",), forward=1, backward=2),
    )

    def one(self, u):
        self.step = "b", "all"
        return (torch.tanh(u @ self.b),)


ZIGZAG = program(
    "zigzag",
    inputs=((2,),),
    parts=(Zigzag0, Zigzag1),
    batch=4,
    messages=(
        Message(0, "u", source=0, target=1, shape=(4, 2), dtype="float64", rows=(0, 4)),
        Message(1, "v", source=1, target=0, shape=(4, 2), dtype="float64", rows=(0, 4)),
    ),
)


class Recorder(torch.optim.SGD):
    """Plain SGD that keeps a copy of the weights after every step."""

    def __init__(self, parameters, history, lr):
        super().__init__(parameters, lr=lr)
        self.history = history

    def step(self, closure=None):
        super().step(closure)
        self.history.append([p.detach().clone() for group in self.param_groups for p in group["params"]])


def state_of(made, seed=0):
    """Return random weights for a program."""
    generator = torch.Generator().manual_seed(seed)
    pieces = [piece for part in made.program.parts for piece in part.weights.values()]
    return {p.name: torch.randn(p.shape, generator=generator, dtype=torch.float64) for p in pieces}


def batches(count, seed=1):
    """Return mini-batches of four rows."""
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape):
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    return [(draw(4, 2), draw(4, 1)) for _ in range(count)]


def squared(output, target):
    return ((output - target) ** 2).mean()
