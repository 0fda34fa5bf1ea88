"""A model's tensors by its own names: from the model, from the pieces that parts hold, and as its state dict shows."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from hyperplace.errors import ModelError, UsageError
from hyperplace.runtime.pieces import put_back
from hyperplace.values.program import Copy, PartProgram, Program


@dataclass(frozen=True)
class StateNames:
    """How a state dict differs from what a program holds.

    `hidden` are buffers that are not persistent. `aliases` are other names of a tensor, each with the one that the
    program uses.
    """

    hidden: frozenset[str] = frozenset()
    aliases: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, model: nn.Module, program: Program) -> "StateNames":
        """Return the names of a model's tensors, of which the program uses some."""
        named = named_tensors(model)
        _refuse_shared_memory(model)
        used = {piece.name for part in program.parts for piece in (*part.weights.values(), *part.buffers.values())}
        main = {id(named[name]): name for name in used if name in named}
        aliases = {name: main[id(one)] for name, one in named.items() if main.get(id(one), name) != name}
        return cls(frozenset(named) - frozenset(model.state_dict()), aliases)

    def known(self, state: Mapping[str, Tensor], program: Program) -> dict[str, Tensor]:
        """Return copies of all tensors; refuse a state that lacks one that the program uses."""
        pieces = [piece for part in program.parts for piece in (*part.weights.values(), *part.buffers.values())]
        if missing := [piece.name for piece in pieces if piece.name not in state]:
            raise UsageError(
                f"{program.name} uses {missing[0]}, which the state lacks; give a state dict of the same model, and "
                "with it the buffers that are not persistent (dict(model.named_buffers()))"
            )
        return {name: one.detach().cpu().clone() for name, one in state.items() if isinstance(one, Tensor)}

    def shown(self, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        """Return the tensors that a state dict has, under all their names."""
        return {n: tensors[self.aliases.get(n, n)] for n in tensors if n not in self.hidden}

    def completed(self, state: Mapping[str, Tensor], base: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return a state dict with the hidden tensors as they are."""
        return {**{name: base[name] for name in self.hidden if name in base}, **state}


def named_tensors(model: nn.Module) -> dict[str, Tensor]:
    """Return all parameters and buffers of a model, one that has several names under each."""
    named = [*model.named_parameters(remove_duplicate=False), *model.named_buffers(remove_duplicate=False)]
    return dict(named)


def evaluated(model: nn.Module, tensors: Mapping[str, Tensor], given: Sequence[Any], *, is_keyword: bool) -> Any:
    """Return what a model makes of inputs in evaluation mode with these parameters and buffers instead of its own."""
    modes = {module: module.training for module in model.modules()}
    args, kwargs = ((), dict(given[0])) if is_keyword else (tuple(given), {})
    model.eval()
    try:
        with torch.no_grad():
            return torch.func.functional_call(model, {n: t.clone() for n, t in tensors.items()}, args, kwargs)
    finally:
        for module, mode in modes.items():
            module.training = mode


def _refuse_shared_memory(model: nn.Module) -> None:
    """Refuse two parameters in the same memory: an update of one would be an update of the other too."""
    owner: dict[int, str] = {}
    for name, parameter in model.named_parameters():
        place = parameter.untyped_storage().data_ptr()
        if place and parameter.requires_grad and owner.setdefault(place, name) != name:
            raise ModelError(
                f"the parameters {owner[place]} and {name} share memory without being one; use one parameter twice"
            )


def assembled(
    base: Mapping[str, Tensor], held: Iterable[tuple[PartProgram, Mapping[str, Tensor]]]
) -> dict[str, Tensor]:
    """Return the tensors of `base` with the pieces the parts own written into them."""
    # Without torch.no_grad, which pieces, being detached, do not need: an interrupt at its end would leave it on.
    whole = {name: tensor.clone() for name, tensor in base.items()}
    for part, tensors in held:
        for attribute, piece in (*part.weights.items(), *part.buffers.items()):
            if not isinstance(piece, Copy):
                put_back(piece, whole[piece.name], tensors[attribute])
    return whole


def check_state(state: Mapping[str, Tensor], wanted: Mapping[str, Tensor]) -> None:
    """Refuse a state dict that has not every tensor of the model in its shape."""
    for name, tensor in wanted.items():
        if name not in state:
            raise UsageError(f"the state dict has no {name!r}; it belongs to another model")
        if not isinstance(state[name], Tensor):
            raise UsageError(f"the state dict's {name!r} is a {type(state[name]).__name__}, not a tensor")
        if state[name].shape != tensor.shape:
            shapes = f"{tuple(state[name].shape)}, not {tuple(tensor.shape)}"
            raise UsageError(f"the state dict's {name!r} is {shapes}; it belongs to another model")
