"""The user's loss function: it may depend on the model's outputs and on data, but not on parameters of its own.

No part's optimizer has such parameters, so they would stay as they are while a plain loop trains them.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

from torch import Tensor, nn

from hyperplace.errors import UsageError

REMEDY = "make them part of the model, such as by returning what they make from its forward, or freeze them"


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
