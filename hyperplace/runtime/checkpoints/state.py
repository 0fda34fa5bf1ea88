"""A model's tensors by its own names: from the model, from the pieces that parts hold, and as its state dict shows."""

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from hyperplace.errors import FileError, ModelError, UsageError
from hyperplace.runtime.checkpoints.tensor_file import read_tensors
from hyperplace.runtime.pieces import put_back
from hyperplace.values.program import Piece, Program


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


def read_state(path: str | Path) -> dict[str, Tensor]:
    """Return a state dict that torch.save wrote; its tensors take no memory before they are used."""
    state = read_tensors(path, "a state dict")
    if not (isinstance(state, dict) and all(isinstance(value, Tensor) for value in state.values())):
        raise FileError(f"cannot use {path}: it holds no state dict; save model.state_dict() with torch.save")
    return state


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


class State:
    """What a trainer knows of a model's tensors: their shapes, and the values of those that no part has whole.

    The values that parts hold are put together with these when somebody asks for a state dict.
    """

    def __init__(self, program: Program, state: Mapping[str, Tensor], names: StateNames) -> None:
        _check_complete(program, state)
        self.names = names
        self.shapes = {n: torch.empty_like(t, device="meta") for n, t in state.items() if isinstance(t, Tensor)}
        mains = [name for name in self.shapes if name not in names.aliases]
        pieces = [piece for part in program.parts for piece in part.held.values()]
        self._not_held = [name for name in mains if not is_covered([one for one in pieces if one.name == name])]
        self.rest: dict[str, Tensor] = {}
        self.take(state)

    def take(self, state: Mapping[str, Tensor]) -> None:
        """Use the values of another state for what no part holds; what it does not show stays as it is."""
        known = {name: state[name] for name in self._not_held if name in state and not state[name].is_meta}
        self.rest |= {name: tensor.detach().cpu().clone() for name, tensor in known.items()}

    def assembled(
        self,
        pieces: Iterable[tuple[Piece, Tensor]],
        rest: Mapping[str, Tensor] | None = None,
        wanted: Set[str] | None = None,
    ) -> dict[str, Tensor]:
        """Return all tensors by their main names, put together; those that are not `wanted` are shapes only.

        `rest` has what no part holds, as this state knows it unless told otherwise.
        """
        rest = self.rest if rest is None else rest
        wanted = self.shapes.keys() if wanted is None else wanted
        # Without torch.no_grad, which pieces, being detached, do not need: an interrupt at its end would leave it on.
        whole = {name: shape for name, shape in self.shapes.items() if name not in self.names.aliases}
        for name in wanted & whole.keys():
            whole[name] = rest[name].clone() if name in rest else torch.empty_like(whole[name], device="cpu")
        for piece, tensor in pieces:
            if piece.name in wanted:
                put_back(piece, whole[piece.name], tensor)
        return whole

    def shown(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return the tensors that a state dict has, under all their names."""
        aliases = self.names.aliases
        return {name: tensors[aliases.get(name, name)] for name in self.shapes if name not in self.names.hidden}

    def check(self, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return the model's tensors of a state dict; refuse one that has not all that a state dict shows."""
        for name, shape in self.shapes.items():
            if name not in state:
                if name in self.names.hidden:
                    continue
                raise UsageError(f"the state dict has no {name!r}; it belongs to another model")
            if not isinstance(state[name], Tensor):
                raise UsageError(f"the state dict's {name!r} is a {type(state[name]).__name__}, not a tensor")
            if state[name].shape != shape.shape:
                shapes = f"{tuple(state[name].shape)}, not {tuple(shape.shape)}"
                raise UsageError(f"the state dict's {name!r} is {shapes}; it belongs to another model")
            if not _is_castable(state[name], shape.dtype):
                kinds = f"{state[name].dtype} ({state[name].layout}), not {shape.dtype}"
                raise UsageError(f"the state dict's {name!r} is {kinds}; it belongs to another model")
        return {name: state[name] for name in self.shapes if name in state}


def _is_castable(tensor: Tensor, dtype: torch.dtype) -> bool:
    """Say whether a tensor's numbers are of a kind that those of the dtype can stand for."""
    return tensor.layout == torch.strided and not tensor.is_quantized and torch.can_cast(tensor.dtype, dtype)


def _check_complete(program: Program, state: Mapping[str, Tensor]) -> None:
    pieces = [piece for part in program.parts for piece in (*part.weights.values(), *part.buffers.values())]
    if missing := [piece.name for piece in pieces if piece.name not in state]:
        raise UsageError(
            f"{program.name} uses {missing[0]}, which the state lacks; give a state dict of the same model, and "
            "with it the buffers that are not persistent (dict(model.named_buffers()))"
        )


def is_covered(pieces: Sequence[Piece]) -> bool:
    """Say whether pieces of a tensor are all of it."""
    if not pieces:
        return False
    # Only where a piece begins or ends something changes: cells between these edges stand for all their elements.
    spans = [piece.spans for piece in pieces]
    edges = [
        sorted({0, size, *(e for s in spans for span in s[d] for e in span)}) for d, size in enumerate(pieces[0].shape)
    ]
    cells = np.zeros([len(marks) - 1 for marks in edges], bool)
    for one in spans:
        axes = [
            [n for n, low in enumerate(marks[:-1]) if any(start <= low < stop for start, stop in ranges)]
            for marks, ranges in zip(edges, one, strict=True)
        ]
        cells[np.ix_(*axes)] = True
    return bool(cells.all())
