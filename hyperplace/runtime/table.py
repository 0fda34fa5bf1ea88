"""The tables of a generated program: what a part has, what its segments take and give.

A segment takes tensors in the order of its method's arguments and gives them in the order of its results.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from hyperplace.errors import UsageError

if TYPE_CHECKING:
    from hyperplace.runtime.part import Part

Span = tuple[int, int]


@dataclass(frozen=True)
class Feed:
    """Channels of one of the model's inputs, such as `0:3`; of all rows, or of some of those planned for."""

    number: int
    channels: str
    rows: Span | None = None


@dataclass(frozen=True)
class Keep:
    """A tensor that stays on the part: made by one segment, taken by later ones."""

    name: str


@dataclass(frozen=True)
class Receive:
    """A tensor from another part; its gradient goes back unless nothing before it learns."""

    name: str
    source: int
    learns: bool = True
    planned: bool = True  # False: part of the model's output on its way to the loss, which no plan counts


@dataclass(frozen=True)
class Send:
    """A tensor for another part."""

    name: str
    target: int
    learns: bool = True
    planned: bool = True


@dataclass(frozen=True)
class Output:
    """One of the model's outputs, whole, on the part that computes the loss."""

    number: int


@dataclass(frozen=True)
class Slot:
    """Where the tensor of this number stands in what a model takes or returns."""

    number: int


@dataclass(frozen=True)
class Segment:
    """A method of a part, what it takes and gives, the layers in it, and a guess of its FLOPs, forward and backward."""

    name: str
    takes: tuple[Feed | Receive | Keep, ...]
    gives: tuple[Keep | Send | Output, ...]
    layers: tuple[str, ...] = ()
    work: int = 0


def parse_index(index: str, shape: tuple[int, ...]) -> tuple[tuple[Span, ...], ...]:
    """Return `0:32, 3:6+8:9` as ranges for every dimension of the shape."""
    texts = [text.strip() for text in index.split(",")] if index else []
    if len(texts) > len(shape):
        raise UsageError(f"index {index!r} has more dimensions than the shape {shape}")
    texts += [":"] * (len(shape) - len(texts))
    return tuple(_spans(text, size, index) for text, size in zip(texts, shape, strict=True))


def _spans(text: str, size: int, index: str) -> tuple[Span, ...]:
    if text == ":":
        return ((0, size),)
    if not re.fullmatch(r"\d+:\d+(\+\d+:\d+)*", text):
        raise UsageError(f"index {index!r} is not written like 0:32, 3:6+8:9")
    spans = [tuple(map(int, span.split(":"))) for span in text.split("+")]
    if any(not 0 <= start < stop <= size for start, stop in spans):
        raise UsageError(f"index {index!r} is outside a dimension of size {size}")
    return tuple((start, stop) for start, stop in spans)


def cut(tensor: Tensor, spans: tuple[tuple[Span, ...], ...]) -> Tensor:
    """Return the ranges of every dimension, side by side; a view where each dimension has one range."""
    for dim, ranges in enumerate(spans):
        pieces = [tensor.narrow(dim, start, stop - start) for start, stop in ranges]
        tensor = pieces[0] if len(pieces) == 1 else torch.cat(pieces, dim)
    return tensor


def paste(whole: Tensor, piece: Tensor, spans: tuple[tuple[Span, ...], ...]) -> None:
    """Write a piece back to where `cut` took it from."""
    for target, source in _cells(whole, piece, spans):
        target.copy_(source)


def add(whole: Tensor, piece: Tensor, spans: tuple[tuple[Span, ...], ...]) -> None:
    """Add a piece to what is where `cut` would take it from."""
    for target, source in _cells(whole, piece, spans):
        target.add_(source)


def _cells(whole: Tensor, piece: Tensor, spans: tuple[tuple[Span, ...], ...]) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield views of the whole and of the piece that belong together."""
    for cell in product(*map(located, spans)):
        target, source = whole, piece
        for dim, ((start, stop), offset) in enumerate(cell):
            target = target.narrow(dim, start, stop - start)
            source = source.narrow(dim, offset, stop - start)
        yield target, source


def located(ranges: tuple[Span, ...]) -> list[tuple[Span, int]]:
    """Return every range with the place where it begins among its neighbours."""
    found, offset = [], 0
    for start, stop in ranges:
        found.append(((start, stop), offset))
        offset += stop - start
    return found


@dataclass(frozen=True)
class Piece:
    """A parameter or buffer of the model, or the slice of it that the index says."""

    name: str
    shape: tuple[int, ...]
    index: str = ""

    @cached_property
    def spans(self) -> tuple[tuple[Span, ...], ...]:
        return parse_index(self.index, self.shape)

    def of(self, whole: Tensor) -> Tensor:
        """Return a copy of the slice."""
        if tuple(whole.shape) != self.shape:
            raise UsageError(f"{self.name} has the shape {tuple(whole.shape)}, but the program wants {self.shape}")
        return cut(whole.detach(), self.spans).clone(memory_format=torch.contiguous_format)

    def paste_into(self, whole: Tensor, piece: Tensor) -> None:
        paste(whole, piece.detach().to(whole.device), self.spans)


@dataclass(frozen=True)
class Copy(Piece):
    """A piece that another part owns: its gradients go there, and its values come from there after every update."""

    owner: int = 0


@dataclass(frozen=True)
class Program:
    """A generated program: the model's name, the shapes of its inputs without rows, and its parts.

    `takes` are the model's positional and keyword arguments and `returns` is what it returns, both with a Slot for
    every tensor. `rows` are the fewest and the most that the model's code takes the same way.
    """

    name: str
    inputs: tuple[tuple[int, ...], ...]
    parts: tuple[type["Part"], ...]
    batch: int
    takes: Any = None  # all positional
    returns: Any = None  # a tensor, or a tuple of them
    rows: tuple[int, int | None] = (1, None)
    predicts: bool = True  # the model does the same in evaluation mode

    def __repr__(self) -> str:
        segments = sum(len(part.segments) for part in self.parts)
        return f"Program({self.name}, {len(self.parts)} parts, {segments} segments)"
