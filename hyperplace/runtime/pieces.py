"""Slices of parameters and buffers: taken out of whole tensors, and put back."""

from collections.abc import Iterator
from itertools import product

import torch
from torch import Tensor

from hyperplace.errors import UsageError
from hyperplace.values.loans import located
from hyperplace.values.program import Piece
from hyperplace.values.ranges import Ranges

Spans = tuple[Ranges, ...]  # of every dimension


def slice_of(piece: Piece, whole: Tensor) -> Tensor:
    """Return a copy of the piece's slice."""
    if tuple(whole.shape) != piece.shape:
        raise UsageError(f"{piece.name} has the shape {tuple(whole.shape)}, but the program wants {piece.shape}")
    return cut(whole.detach(), piece.spans).clone(memory_format=torch.contiguous_format)


def put_back(piece: Piece, whole: Tensor, slice_: Tensor) -> None:
    """Write a piece's slice into the whole tensor."""
    paste(whole, slice_.detach().to(whole.device), piece.spans)


def cut(tensor: Tensor, spans: Spans) -> Tensor:
    """Return the ranges of every dimension, side by side; a view where each dimension has one range."""
    for dim, ranges in enumerate(spans):
        pieces = [tensor.narrow(dim, start, stop - start) for start, stop in ranges]
        tensor = pieces[0] if len(pieces) == 1 else torch.cat(pieces, dim)
    return tensor


def paste(whole: Tensor, piece: Tensor, spans: Spans) -> None:
    """Write a piece back to where `cut` took it from."""
    for target, source in _cells(whole, piece, spans):
        target.copy_(source)


def add(whole: Tensor, piece: Tensor, spans: Spans) -> None:
    """Add a piece to what is where `cut` would take it from."""
    for target, source in _cells(whole, piece, spans):
        target.add_(source)


def _cells(whole: Tensor, piece: Tensor, spans: Spans) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield views of the whole and of the piece that belong together."""
    for cell in product(*map(located, spans)):
        target, source = whole, piece
        for dim, ((start, stop), offset) in enumerate(cell):
            target = target.narrow(dim, start, stop - start)
            source = source.narrow(dim, offset, stop - start)
        yield target, source
