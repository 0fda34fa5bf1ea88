"""The user's loss function: it may depend on the model's outputs and on data, but not on parameters of its own.

No part's optimizer has such parameters, so they would stay as they are while a plain loop trains them.
"""

import math
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from hyperplace.errors import UsageError

REMEDY = "make them part of the model, such as by returning what they make from its forward, or freeze them"


class Judged(threading.local):
    """The mini-batch, or micro-batch, whose loss this thread computes."""

    batch = 0


JUDGED = Judged()


def check_loss(loss: Any) -> None:
    """Refuse what cannot be called, and a module whose parameters would not be trained."""
    function: Any = loss.func if isinstance(loss, partial) else loss
    if not callable(function):
        raise UsageError(f"loss is {type(loss).__name__}, but a function of outputs and target is wanted")
    if isinstance(function, nn.Module):
        names = [name for name, one in function.named_parameters() if one.requires_grad]
        if names:
            raise UsageError(
                f"the loss {type(function).__name__} has parameters of its own ({', '.join(names)}), which would not "
                f"be trained; {REMEDY} with requires_grad_(False)"
            )


def check_reach(loss: Any, outputs: Sequence[Tensor]) -> None:
    """Refuse a loss through which parameters would get gradients, whatever way the function came by them."""
    if not isinstance(loss, Tensor):
        raise TypeError(f"the loss is {type(loss).__name__}, not a tensor")
    todo, seen = [loss.grad_fn], set()
    while todo:
        node = todo.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        leaf = getattr(node, "variable", None)  # of the nodes that add gradients up
        if isinstance(leaf, nn.Parameter) and all(leaf is not output for output in outputs):
            shape = tuple(leaf.shape)
            raise UsageError(
                f"the loss depends on a parameter of shape {shape} other than through the model's outputs, which "
                f"would not be trained; {REMEDY} with detach()"
            )
        todo += [following for following, _ in node.next_functions]


class PiecewiseLoss:
    """Hold the loss of the first mini-batch that is cut against that of its pieces, each weighed by its rows.

    They are the same where the loss is a mean over rows. A sum, or a loss in which rows see each other, would be
    another one. The loss is called once more for that, without gradients.
    """

    def __init__(self, loss: Callable[..., Tensor] | None) -> None:
        self._loss = loss
        self._pieces: list[tuple[list[Tensor], Tensor, float]] = []
        self._total = 0.0
        self._is_done = False

    def add(self, outputs: list[Tensor], target: Tensor, loss: Tensor, share: float) -> None:
        """Take a piece; with the last of its mini-batch, compare."""
        if self._loss is None or self._is_done or share == 1.0:
            return
        self._pieces.append(([output.detach() for output in outputs], target, share))
        self._total += float(loss.detach()) * share
        if sum(share for *_, share in self._pieces) < 1 - 1e-9:
            return
        self._is_done = True
        pieces, self._pieces = self._pieces, []
        with torch.no_grad():
            targets = [target for _, target, _ in pieces]
            joined = [_joined(each, targets) for each in zip(*(outputs for outputs, *_ in pieces), strict=True)]
            whole = self._loss(joined, torch.cat(targets))
        expected, tolerance = float(whole), torch.finfo(loss.dtype).eps ** 0.5
        if math.isfinite(expected) and not math.isclose(expected, self._total, rel_tol=tolerance, abs_tol=tolerance):
            raise UsageError(
                f"the loss of a mini-batch is {expected:.6g}, but that of its micro-batches, weighed by their rows, is "
                f"{self._total:.6g}: it is no mean over rows; give micro_batches=1"
            )


def _joined(pieces: Sequence[Tensor], targets: Sequence[Tensor]) -> Tensor:
    """Return an output of all rows; one that has none is the same in every piece."""
    has_rows = all(one.ndim and one.shape[0] == len(target) for one, target in zip(pieces, targets, strict=True))
    return torch.cat(list(pieces)) if has_rows else pieces[0]
