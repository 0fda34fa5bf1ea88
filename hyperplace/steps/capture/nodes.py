"""What a node of a captured program is: its tensors, their sizes and bytes, its module, its multiply-adds."""

from contextlib import suppress
from math import prod
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import Node
from torch.fx.node import map_arg
from torch.utils.flop_counter import FlopCounterMode

from hyperplace.steps.capture.aliases import written
from hyperplace.steps.capture.sizes import shape_of
from hyperplace.values.graph import Call, Ref


def tensors_of(node: Node) -> list[torch.Tensor]:
    """Return the tensors a node makes."""
    value = node.meta.get("val")
    values = value if isinstance(value, list | tuple) else [value]
    return [v for v in values if isinstance(v, torch.Tensor)]


def shape_made(node: Node) -> tuple[int, ...]:
    """Return the shape of the first tensor a node makes."""
    tensors = tensors_of(node)
    return shape_of(tensors[0]) if tensors else ()


def state_bytes(node: Node) -> int:
    """Return the bytes of a parameter or buffer."""
    return sum(prod(shape_of(v)) * v.element_size() for v in tensors_of(node))


def module_of(node: Node) -> tuple[str, str]:
    """Return the path and kind of the module whose forward makes the call."""
    stack = list((node.meta.get("nn_module_stack") or {}).values())
    path, kind = stack[-1] if stack else ("", "")
    return str(path), str(kind)


def state_names(calls: tuple[Call, ...]) -> list[str]:
    """Return the parameters and buffers that some calls read."""
    args = [arg for call in calls for arg in (*call.args, *(value for _, value in call.kwargs))]
    flat = [inner for arg in args for inner in (arg if isinstance(arg, tuple) else (arg,))]
    return [ref.name for ref in flat if isinstance(ref, Ref) and ref.is_state]


def counted_macs(node: Node) -> int:
    """Count the multiply-adds of any call by running it on its fake tensors under torch's own counter."""
    if written(node) or not hasattr(node.target, "_schema"):
        return 0
    # Not the program's own fake tensors: some operations would tell torch that the rows are the sample's, for good.
    with suppress(Exception), FakeTensorMode(), FlopCounterMode(display=False) as counter:
        args, kwargs = map_arg((node.args, node.kwargs), lambda n: _sized(n.meta["val"]))
        node.target(*args, **kwargs)  # type: ignore[operator]
        return int(counter.get_total_flops()) // 2
    return 0


def _sized(value: Any) -> Any:
    """Return a value for the sample's rows."""
    if isinstance(value, torch.Tensor):
        return torch.empty(shape_of(value), dtype=value.dtype, device=value.device)
    if isinstance(value, torch.SymInt | torch.SymFloat):
        return value.node.hint
    return [_sized(one) for one in value] if isinstance(value, list | tuple) else value
