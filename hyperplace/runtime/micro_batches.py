"""Cut a mini-batch into micro-batches for the sync schedule."""

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from hyperplace.errors import UsageError
from hyperplace.runtime.commands import Batch
from hyperplace.runtime.precision import autocasts
from hyperplace.values.program import Program, piece_rows


def micro_batches(program: Program, inputs: Sequence[Tensor], target: Any, *, first: int, most: int) -> list[Batch]:
    """Return at most so many pieces of a mini-batch, numbered from `first` on, each with its share of the loss."""
    rows = inputs[0].shape[0]
    pieces = _num_pieces(program, rows, target, most=most)
    chunks = [x.chunk(pieces) for x in inputs]
    has_rows = isinstance(target, Tensor) and target.ndim > 0 and target.shape[0] == rows
    targets = target.chunk(pieces) if has_rows else [target]
    if len(targets) != len(chunks[0]):
        raise UsageError("micro-batches need a target that is a tensor with a row for every row of the input")
    casts, last = autocasts(), first + len(targets) - 1
    return [
        Batch(first + number, own, targets[number], own[0].shape[0] / rows, casts, last=last)
        for number, own in enumerate(zip(*chunks, strict=True))
    ]


def _num_pieces(program: Program, rows: int, target: Any, *, most: int) -> int:
    """Return into how many micro-batches to cut so many rows: each with as many as the program takes at least.

    Targets below zero are those that losses of classes leave out, so that a piece's rows do not say what it weighs.
    """
    if isinstance(target, Tensor) and not target.is_floating_point() and not target.is_complex() and (target < 0).any():
        return 1
    pieces = min(most, rows)
    while pieces > 1 and piece_rows(rows, pieces)[-1] < program.rows[0]:
        pieces -= 1
    return pieces
