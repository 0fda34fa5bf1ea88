"""Whether a captured program is its model: refuse what it would not hold, and look at the model's other uses.

torch.export runs a model's Python once and keeps the operations. Its own backward passes, hooks on gradients, numbers
drawn by Python and attributes that forward changes are lost without a word; here they are noticed while it runs. And
it runs it in training, for several rows: with one row, or in evaluation mode, the operations may be others.
"""

import random
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

import numpy as np
import torch
from torch import nn
from torch.autograd import function as autograd_function
from torch.export import ExportedProgram
from torch.fx import Node
from torch.utils import checkpoint
from torch.utils._pytree import tree_leaves, tree_map

from hyperplace.errors import ModelError
from hyperplace.steps.capture.aliases import families, needs_of, op_name
from hyperplace.steps.capture.export import Exported, Sample, export, flatten
from hyperplace.steps.capture.sizes import is_number, number_of
from hyperplace.values.graph import Rows

_SIMPLE = (bool, int, float, str)
_GROWING = (list, dict, set)
_MODES = ("training", "train", "use_input_stats", "dropout_p")
_FREE = ("slice", "alias")  # which torch.export leaves out or not, as it finds them to do nothing


@contextmanager
def watched(model: nn.Module) -> Iterator[list[str]]:
    """Refuse, when the block ends well, what the model's code has done in it besides calling operations.

    Yield a list that then has the modules whose own code has asked whether they are being trained; of torch's layers it
    is known what they do.
    """
    _refuse_hooks(model)
    seen: dict[str, None] = {}
    asking: list[str] = []
    before, drawn = _attributes(model), _random_state()
    try:
        with ExitStack() as patches:
            for patch in (*_patches(model, seen), _asked(model, asking)):
                patches.enter_context(patch)
            yield asking
        changed = [name for name, value in _attributes(model).items() if before.get(name, value) != value]
    finally:
        _restore(model, before)
    if _random_state() != drawn:
        seen["draws random numbers of Python or numpy, which would be drawn once for all; draw them with torch"] = None
    for name in changed:
        seen[f"changes its attribute {name}, which would keep its value; make it a buffer"] = None
    if seen:
        raise ModelError(f"the model's forward {next(iter(seen))}")


def _patches(model: nn.Module, seen: dict[str, None]) -> list[Any]:
    """Return what makes torch tell of custom gradients, hooks, and norms that are computed twice."""
    depth, modules = [0], set(model.modules())

    def is_defined(setup: Any) -> Any:
        kind = sys._getframe(1).f_locals.get("cls")  # the function's class; its name is bound by users beforehand
        if kind is not None and not kind.__module__.startswith("torch."):
            seen[f"has a backward pass of its own ({kind.__name__}), which would be lost"] = None
        return is_setup_defined(setup)

    def hooked(tensor: Any, hook: Any) -> Any:
        seen["puts a hook on a gradient (register_hook), which would be lost"] = None
        return register(tensor, hook)

    def recomputed(*args: Any, **kwargs: Any) -> Iterator[None]:
        depth[0] += 1
        try:
            yield from recompute(*args, **kwargs)
        finally:
            depth[0] -= 1

    def recomputed_at_once(*args: Any) -> Any:
        depth[0] += 1
        try:
            return recompute_at_once(*args)
        finally:
            depth[0] -= 1

    def assigned(module: nn.Module, name: str, value: Any) -> None:
        before = vars(module).get(name, value)
        is_own = module in modules and not (name.startswith("_") or name == "training")
        if is_own and isinstance(value, _SIMPLE) and before != value:
            seen[f"changes its attribute {name}, which would keep its value; make it a buffer"] = None
        assign(module, name, value)

    def normed(x: Any, mean: Any, *args: Any, **kwargs: Any) -> Any:
        is_training = kwargs.get("training", args[3] if len(args) > 3 else False)
        if depth[0] and is_training and mean is not None:
            seen[
                "has a batch norm in torch.utils.checkpoint, whose statistics plain torch moves twice; take it out"
            ] = None
        return batch_norm(x, mean, *args, **kwargs)

    is_setup_defined: Any = autograd_function._is_setup_context_defined
    register: Any = torch.Tensor.register_hook
    recompute: Any = checkpoint._checkpoint_without_reentrant_generator
    recompute_at_once: Any = checkpoint.CheckpointFunction.forward
    assign = nn.Module.__setattr__
    batch_norm = nn.functional.batch_norm
    return [
        mock.patch.object(autograd_function, "_is_setup_context_defined", is_defined),
        mock.patch.object(torch.Tensor, "register_hook", hooked),
        mock.patch.object(checkpoint, "_checkpoint_without_reentrant_generator", recomputed),
        mock.patch.object(checkpoint.CheckpointFunction, "forward", staticmethod(recomputed_at_once)),
        mock.patch.object(nn.Module, "__setattr__", assigned),
        mock.patch.object(nn.functional, "batch_norm", normed),
    ]


def _asked(model: nn.Module, asking: list[str]) -> Any:
    """Return what makes modules tell that they are asked for their mode."""
    own = {id(module): name for name, module in model.named_modules() if not _is_layer_of_torch(module)}

    def attribute(module: nn.Module, name: str) -> Any:
        if name == "training" and id(module) in own:
            asking.append(own[id(module)])
        return object.__getattribute__(module, name)

    return mock.patch.object(nn.Module, "__getattribute__", attribute, create=True)


def _is_layer_of_torch(module: nn.Module) -> bool:
    return type(module).__module__.startswith("torch.nn.modules.")


def _refuse_hooks(model: nn.Module) -> None:
    """Refuse hooks on gradients that were registered beforehand."""
    for name, module in model.named_modules():
        if module._backward_hooks or module._backward_pre_hooks:
            raise ModelError(f"{name or 'the model'} has a backward hook, which would be lost; remove it")
    for name, parameter in model.named_parameters():
        hooks = parameter._backward_hooks or getattr(parameter, "_post_accumulate_grad_hooks", None)
        if hooks:
            raise ModelError(f"the parameter {name} has a hook on its gradient, which would be lost; remove it")


def _attributes(model: nn.Module) -> dict[str, Any]:
    """Return the plain attributes of all modules: numbers and texts by value, lists and dicts by length."""
    found: dict[str, Any] = {}
    for path, module in model.named_modules():
        for key, value in vars(module).items():
            if key.startswith("_") or key == "training":
                continue
            name = f"{path}.{key}".strip(".")
            if isinstance(value, _SIMPLE):
                found[name] = value
            elif type(value) in _GROWING:
                found[name] = len(value)
    return found


def _restore(model: nn.Module, before: dict[str, Any]) -> None:
    """Give numbers and texts that capture has changed their values back."""
    for path, module in model.named_modules():
        for key, value in list(vars(module).items()):
            name = f"{path}.{key}".strip(".")
            if name in before and isinstance(value, _SIMPLE) and type(before[name]) is type(value):
                vars(module)[key] = before[name]


def _random_state() -> tuple[Any, ...]:
    kind, keys, *rest = np.random.get_state()  # noqa: NPY002 - it is what models use
    return random.getstate(), kind, tuple(np.asarray(keys).tolist()), *rest


def takes_one_row(model: nn.Module, sample: Sample, exported: Exported) -> bool:
    """Say whether a model does the same with a single row, which torch.export always takes for a case of its own."""
    alone = tree_map(lambda x: x[:1] if isinstance(x, torch.Tensor) else x, sample)
    try:
        program = torch.export.export(model, *alone)
    except Exception:  # such as batch norm, which wants several values
        return False
    flatten(program)
    return _operations(program, 1) == _operations(exported.program, 1)


def evaluates_alike(model: nn.Module, sample: Sample, rows: int, exported: Exported) -> bool:
    """Say whether a model, now in evaluation mode, computes its outputs by the operations it is trained with.

    Dropout and norms follow the mode by themselves.
    """
    try:
        program = export(model, *sample, rows).program
    except ModelError:  # a branch that only evaluation takes may be one that cannot be exported
        return False
    return _operations(program, rows) == _operations(exported.program, rows)


def _operations(program: ExportedProgram, rows: int) -> list[Any]:
    """Return the operations that lead to the outputs, in order, with their constants for so many rows."""
    graph = program.graph
    needs = needs_of(graph, families(graph))
    wanted = {node for node in graph.nodes if node.op == "output"}
    for node in reversed(graph.nodes):
        if node in wanted:
            wanted |= needs[node]
    made = [node for node in graph.nodes if node in wanted and node.op == "call_function" and _makes_tensors(node)]
    kept = [node for node in made if "dropout" not in op_name(node) and op_name(node) not in _FREE]
    return [(node.target, _said(_by_name(node), rows)) for node in kept]


def _by_name(node: Node) -> dict[str, Any]:
    """Return a call's arguments by name, without those that say in which mode it is."""
    schema = getattr(node.target, "_schema", None)
    names = [argument.name for argument in schema.arguments] if schema else map(str, range(len(node.args)))
    named = dict(zip(names, node.args, strict=False)) | node.kwargs
    return {name: value for name, value in named.items() if name not in _MODES}


def _said(argument: Any, rows: int) -> Any:
    """Return the constants of an argument, with nothing for values."""
    if is_number(argument):
        number = number_of(argument)
        return number.at(rows) if isinstance(number, Rows) else number
    if isinstance(argument, Node):
        return None
    if isinstance(argument, dict):
        return {name: _said(one, rows) for name, one in argument.items()}
    return [_said(one, rows) for one in argument] if isinstance(argument, list | tuple) else argument


def _makes_tensors(node: Node) -> bool:
    return any(isinstance(value, torch.Tensor) for value in tree_leaves(node.meta.get("val")))
