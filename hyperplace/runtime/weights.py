"""One part's parameters over time: versions for mini-batches in flight, gradients, updates.

The optimizer always works on the same Parameters. A segment of a mini-batch sees those it uses through aliases of their
memory at the time of its forward pass. With stashing, an update first moves to new memory what another mini-batch
in flight still sees; that one's backward pass then sees the weights its forward pass saw. Without stashing the memory
changes under it, as in the thesis's threaded training.

Weights that other parts have copies of, and the copies, are shown by `Replicas`, here only owned weights are.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from hyperplace.errors import UsageError
from hyperplace.runtime.optimizers import check_factory, made_optimizer, made_scheduler
from hyperplace.runtime.pieces import slice_of
from hyperplace.runtime.runnable import Part
from hyperplace.values.arguments import is_number
from hyperplace.values.program import Piece

Optimizer = torch.optim.Optimizer
OptimizerFactory = Callable[[list[Any]], Optimizer]  # of parameters, or of pairs of a name and a parameter
SchedulerFactory = Callable[[Optimizer], Any]
AverageFactory = Callable[[nn.Module], Any]


@dataclass(frozen=True)
class Training:
    """How a part learns: factories for its optimizer, its schedule of learning rates and its averaged weights.

    With `named_parameters` the optimizer's factory gets pairs of a parameter's name in the model and the parameter.
    `clip_norm` is the most that the norm of all parts' gradients of an update may be, as clip_grad_norm_ has it for a
    whole model; `clip_part_norm` is for every part by itself. Weights of which several parts have copies are always
    stashed: all of them use one version for a mini-batch.
    """

    optimizer: OptimizerFactory
    scheduler: SchedulerFactory | None = None
    average: AverageFactory | None = None
    clip_norm: float | None = None
    clip_part_norm: float | None = None
    stash: bool = True
    named_parameters: bool = False

    def __post_init__(self) -> None:
        check_factory("optimizer", self.optimizer, "lambda parameters: torch.optim.SGD(parameters, lr=0.01)")
        if self.scheduler is not None:
            check_factory("scheduler", self.scheduler, "lambda optimizer: StepLR(optimizer, 1000)")
        if self.average is not None:
            check_factory("average", self.average, "AveragedModel")
        for name in ("clip_norm", "clip_part_norm"):
            if (norm := getattr(self, name)) is not None and not (is_number(norm) and norm > 0):
                raise UsageError(f"{name} {norm!r} is not a norm; give a number above 0, or None for no clipping")
        if self.clip_norm is not None and self.clip_part_norm is not None:
            raise UsageError("clip_norm is for all parts together and clip_part_norm for each; give one of them")


@dataclass(eq=False)
class Version:
    """The weights as one mini-batch sees them; `number` counts the updates before the oldest that it sees."""

    number: int = -1  # before its first segment
    leaves: dict[str, Tensor] = field(default_factory=dict)
    wants: dict[str, int] = field(default_factory=dict)  # updates that replicated weights must have had

    def saw(self, number: int) -> None:
        """Note that weights with so many updates were seen."""
        self.number = number if self.number < 0 else min(self.number, number)


@dataclass
class Staleness:
    """How many updates came between the oldest weights a mini-batch saw on a part and its own update."""

    counts: dict[int, int] = field(default_factory=dict)

    def add(self, updates: int) -> None:
        self.counts[updates] = self.counts.get(updates, 0) + 1

    @property
    def mean(self) -> float:
        counts = self.counts.copy()  # the rank goes on counting while somebody reads
        total = sum(counts.values())
        return sum(number * count for number, count in counts.items()) / total if total else 0.0

    @property
    def most(self) -> int:
        return max(self.counts, default=0)


class Weights:
    """The parameters and buffers of one part."""

    def __init__(
        self, part: Part, state: Mapping[str, Tensor], training: Training, *, updates_at_once: bool = True
    ) -> None:
        self._part, self._training, self.device = part, training, part.device
        self.owned = part.table().owned
        self.parameters = {name: nn.Parameter(self._slice(piece, state)) for name, piece in self.owned.items()}
        self.buffers = {name: self._slice(piece, state) for name, piece in part.buffers.items()}
        values = list(self.parameters.values())
        named = [(piece.name, self.parameters[attribute]) for attribute, piece in self.owned.items()]
        self.optimizer = made_optimizer(training, named) if named else None
        self.scheduler: Any = None
        if training.scheduler and self.optimizer:
            self.scheduler = made_scheduler(training.scheduler, self.optimizer)
        module = nn.ParameterList(values)
        self.average = training.average(module) if training.average and values else None
        self.number = 0  # of updates so far
        self.staleness = Staleness()
        # Micro-batches that share an update share their leaves, so that gradients are added up layer by layer while
        # they are still in the cache: VGG16 cut into four took 5 % longer with leaves for each.
        self._shared: dict[str, Tensor] | None = None if updates_at_once else {}
        self._seen_by: dict[str, set[Version]] = {name: set() for name in self.parameters}  # as they are now
        self.finish_buffers()
        part.see(self.buffers)

    def _slice(self, piece: Piece, state: Mapping[str, Tensor]) -> Tensor:
        return slice_of(piece, state[piece.name]).to(self.device)

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Take other values, of the tensors that the state has; nothing may be in flight."""
        with torch.no_grad():
            for name, piece in self.owned.items():
                self.parameters[name].copy_(slice_of(piece, state[piece.name]))
            for name, piece in self._part.buffers.items():
                if piece.name in state:  # a state dict does not show every buffer
                    self.buffers[name].copy_(slice_of(piece, state[piece.name]))
        self.finish_buffers()

    def show(self, version: Version, names: Iterable[str]) -> None:
        """Let a mini-batch see some weights as they are now, unless it has seen them before."""
        learns = torch.is_grad_enabled()
        fresh = [name for name in names if name not in version.leaves]
        for name in fresh:
            version.leaves[name] = self._leaf(name, learns=learns)
            if learns:
                self._seen_by[name].add(version)
        if fresh or version.number < 0:
            version.saw(self.number)

    def _leaf(self, name: str, *, learns: bool) -> Tensor:
        """Return a weight as a mini-batch sees it: what its gradient is gathered in."""
        if self._shared is not None and learns and name in self._shared:
            return self._shared[name]
        # .data and not detach(): an alias with a version counter of its own, which updates leave alone.
        leaf = self.parameters[name].data.requires_grad_(learns)
        if self._shared is not None and learns:
            self._shared[name] = leaf
        return leaf

    def accumulate(self, version: Version) -> None:
        """Add a finished mini-batch's gradients to those waiting for an update."""
        shared = self._shared or {}
        for name, parameter in self.parameters.items():
            self._seen_by[name].discard(version)
            leaf = version.leaves.get(name)
            if leaf is None or leaf.grad is None:
                continue
            if leaf is shared.get(name) or parameter.grad is None:  # a shared one has those of all before
                parameter.grad = leaf.grad
            else:
                parameter.grad.add_(leaf.grad)

    def take_gradients(self) -> dict[str, Tensor]:
        """Return the gradients waiting for an update, which wait no longer."""
        found = {name: one.grad for name, one in self.parameters.items() if one.grad is not None}
        for name in found:
            self.parameters[name].grad = None
        return found

    def put_gradients(self, gradients: Mapping[str, Tensor]) -> None:
        """Let gradients that were taken wait for the next update."""
        for name, gradient in gradients.items():
            self.parameters[name].grad = gradient

    def update(self, version: Version | None = None) -> None:
        """Let the optimizer use the gradients; `version` is that of the mini-batch they are of, for the staleness."""
        if version is not None:
            self.staleness.add(self.number - version.number)
        if self._training.stash:
            for name in (name for name, versions in self._seen_by.items() if versions):
                self.parameters[name].data = self.parameters[name].data.clone()
                self._seen_by[name].clear()
        if self.optimizer:
            if self._training.clip_part_norm is not None:
                nn.utils.clip_grad_norm_(self.parameters.values(), self._training.clip_part_norm)
            self.optimizer.step()
            self.optimizer.zero_grad(set_to_none=True)
            if self._shared:
                self._shared.clear()
            if self.scheduler:
                self.scheduler.step()
            if self.average:
                self.average.update_parameters(nn.ParameterList(self.parameters.values()))
        self.number += 1
        self.finish_buffers()

    def discard(self) -> None:
        """Forget mini-batches that will never finish, and what they did to the buffers."""
        for versions in self._seen_by.values():
            versions.clear()
        for name, tensor in self._finished_buffers.items():
            self.buffers[name].copy_(tensor)
        for parameter in self.parameters.values():
            parameter.grad = None
        if self._shared:
            self._shared.clear()

    def now(self) -> dict[str, Tensor]:
        """Return parameters and buffers by attribute."""
        return {**self.parameters, **self.buffers}

    def finished(self) -> dict[str, Tensor]:
        """Return parameters and buffers by attribute as they were after the last update."""
        return {**self.parameters, **self._finished_buffers}

    def averaged(self) -> dict[str, Tensor]:
        """Return the averaged weights by attribute, or the weights themselves where nothing is averaged."""
        values: Iterable[Tensor] = self.average.module if self.average else self.parameters.values()
        return dict(zip(self.parameters, values, strict=True))

    def finish_buffers(self) -> None:
        """Remember the buffers as they are: what mini-batches that never finish do to them is forgotten."""
        self._finished_buffers = {name: tensor.clone() for name, tensor in self.buffers.items()}
