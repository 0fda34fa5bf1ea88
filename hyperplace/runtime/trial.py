"""Whether an optimizer may work on pieces of a model: found out by trying its twin on small tensors, whatever its name.

A twin has the optimizer's settings and small parameters of its own. Of every kind that the real ones are of (a group, a
number of dimensions) it has a sample: a tensor, the same tensor in pieces, and a stranger. After a few steps with the
same gradients the pieces must be what the tensor is, or the optimizer is not element-wise (Adafactor, LAMB, Muon); and
with another gradient of the stranger nothing else may change, or it couples parameters (a global norm, D-Adaptation).
"""

import copy
import threading
from collections import OrderedDict, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

STEPS, SIDE = 4, 4  # of updates, and elements in each dimension
CALM, STIRRED = 1.0, 1000.0  # the stranger's gradient
TOLERANCE = 1e-6  # an optimizer may compute in float32 within
HOOKS = ("_optimizer_step_pre_hooks", "_optimizer_step_post_hooks")
REPLACED = ("param_groups", "state", "step", *HOOKS)  # a scheduler wraps `step` of the optimizer it belongs to


@dataclass(frozen=True)
class Kind:
    """Which parameters an optimizer may treat in a way of their own."""

    group: int
    num_dims: int


@dataclass(frozen=True)
class Trial:
    """What was found: the kinds whose elements depend on each other, and whether parameters do."""

    mixed: frozenset[Kind]
    couples: bool


_ALONE = threading.Lock()  # the random numbers that are put back, for optimizers that draw some, are all threads'


def try_out(optimizer: torch.optim.Optimizer) -> Trial:
    """Return what a twin does; the optimizer itself, its state and torch's random numbers stay as they are."""
    with _ALONE, torch.random.fork_rng(devices=[]), _one_thread():
        calm, stirred = _after_steps(optimizer, CALM), _after_steps(optimizer, STIRRED)
    mixed = frozenset(kind for kind, sample in calm.items() if not sample.pieces_are_equal)
    couples = any(not _is_close(sample.whole, stirred[kind].whole) for kind, sample in calm.items())
    return Trial(mixed, couples)


def stumbles(
    optimizer: torch.optim.Optimizer,
    scheduler: Any,
    settings: Sequence[Mapping[str, Any]],
    states: Mapping[nn.Parameter, Mapping[str, Any]],
    scheduled: Mapping[str, Any],
) -> str:
    """Return why an optimizer and its scheduler could not go on with what a file has for them; nothing if they can.

    A step of twins that have a corner of every parameter and of its state. Of what cannot be tried nothing is said.
    Ranks may run meanwhile, so torch's number of threads, which is everybody's, stays as it is.
    """
    with _ALONE, torch.random.fork_rng(devices=[]):
        own = [settings_of(group) for group in optimizer.param_groups]
        known: dict[nn.Parameter, Mapping[str, Any]] = {
            one: optimizer.state.get(one, {}) for one in kinds_of(optimizer)
        }
        if _step_fault(optimizer, scheduler, own, known, {}):
            return ""
        return _step_fault(optimizer, scheduler, settings, states, scheduled)


def _step_fault(
    optimizer: torch.optim.Optimizer,
    scheduler: Any,
    settings: Sequence[Mapping[str, Any]],
    states: Mapping[nn.Parameter, Mapping[str, Any]],
    scheduled: Mapping[str, Any],
) -> str:
    try:
        corner_of = {one: nn.Parameter(_corner(one.detach(), one)) for one in kinds_of(optimizer)}
        twin = _bare_twin(optimizer, {id(one): corner for one, corner in corner_of.items()})
        for group, words in zip(optimizer.param_groups, settings, strict=True):
            known = copy.deepcopy(settings_of(group) | dict(words))
            twin.param_groups.append(known | {"params": [corner_of[one] for one in group["params"]]})
        for one, state in states.items():
            twin.state[corner_of[one]] = {key: _corner(value, one) for key, value in state.items()}
        for corner in corner_of.values():
            corner.grad = torch.ones_like(corner)
        other = copy.deepcopy(scheduler, {id(optimizer): twin})
        if other and scheduled:
            other.load_state_dict(dict(scheduled))
        twin.step()
        if other:
            other.step()
    except Exception as fault:  # it is anybody's code
        return f"{type(fault).__name__}: {' '.join(str(fault).split())[:200]}"
    return ""


def _corner(value: Any, like: Tensor) -> Any:
    """Return a copy of the corner of what has a parameter's shape, and of anything else as it is."""
    if isinstance(value, Tensor) and value.shape == like.shape:
        return value[tuple(slice(SIDE) for _ in value.shape)].clone()
    return copy.deepcopy(value)


@contextmanager
def _one_thread() -> Iterator[None]:
    """Let small tensors wait for no second thread, which on a busy machine takes a hundred times their time."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def kinds_of(optimizer: torch.optim.Optimizer) -> dict[nn.Parameter, Kind]:
    """Return the kind of every parameter."""
    groups = enumerate(optimizer.param_groups)
    return {one: Kind(number, one.ndim) for number, group in groups for one in group["params"]}


@dataclass(frozen=True)
class Sample:
    """A small tensor, the same in pieces, and a stranger to both."""

    whole: nn.Parameter
    pieces: tuple[nn.Parameter, ...]
    stranger: nn.Parameter

    @classmethod
    def drawn(cls, num_dims: int, generator: torch.Generator) -> "Sample":
        shape = (SIDE,) * num_dims
        whole, stranger = (torch.randn(shape, dtype=torch.float64, generator=generator) for _ in range(2))
        return cls(nn.Parameter(whole.clone()), tuple(map(nn.Parameter, _cut(whole))), nn.Parameter(stranger))

    def __iter__(self) -> Iterator[nn.Parameter]:
        return iter((self.whole, *self.pieces, self.stranger))

    def draw_gradients(self, stir: float, generator: torch.Generator) -> None:
        shape, dtype = self.whole.shape, self.whole.dtype
        gradient, other = (torch.randn(shape, dtype=dtype, generator=generator) for _ in range(2))
        self.whole.grad, self.stranger.grad = gradient, stir * other
        for piece, slice_ in zip(self.pieces, _cut(gradient), strict=True):
            piece.grad = slice_

    @property
    def pieces_are_equal(self) -> bool:
        return all(_is_close(*pair) for pair in zip(self.pieces, _cut(self.whole.detach()), strict=True))


def _cut(whole: Tensor) -> list[Tensor]:
    """Return copies of the quarters by the first two dimensions: parts hold slices by filters and by channels."""
    pieces = [whole]
    for dim in range(min(2, whole.ndim)):
        pieces = [half for piece in pieces for half in piece.chunk(2, dim)]
    return [piece.clone(memory_format=torch.contiguous_format) for piece in pieces]


def _is_close(one: Tensor, other: Tensor) -> bool:
    return torch.allclose(one, other, rtol=TOLERANCE, atol=TOLERANCE, equal_nan=True)


def _after_steps(optimizer: torch.optim.Optimizer, stir: float) -> dict[Kind, Sample]:
    """Return samples that a twin has updated."""
    torch.default_generator.manual_seed(0)  # torch.manual_seed would seed the GPUs' too
    generator = torch.Generator().manual_seed(0)  # others may draw from the default one meanwhile
    samples = {kind: Sample.drawn(kind.num_dims, generator) for kind in dict.fromkeys(kinds_of(optimizer).values())}
    twin = _twin(optimizer, samples)
    for _ in range(STEPS):
        for sample in samples.values():
            sample.draw_gradients(stir, generator)
        twin.step()
    return samples


def _twin(optimizer: torch.optim.Optimizer, samples: dict[Kind, Sample]) -> torch.optim.Optimizer:
    """Return an optimizer that differs in its parameters only, and tells nobody of its steps."""
    kind_of = kinds_of(optimizer)
    whole_of = {id(one): samples[kind].whole for one, kind in kind_of.items()}
    twin = _bare_twin(optimizer, whole_of)
    twin.param_groups = [
        _moving(settings_of(group))
        | {"params": [one for kind, sample in samples.items() if kind.group == number for one in sample]}
        for number, group in enumerate(optimizer.param_groups)
    ]
    for one, kind in kind_of.items():
        if one in optimizer.state:  # some, such as Adagrad, have one before their first step
            twin.state.update(_states(optimizer.state[one], one, samples[kind]))
    return twin


def _bare_twin(optimizer: torch.optim.Optimizer, tensor_of: dict[int, nn.Parameter]) -> torch.optim.Optimizer:
    """Return an optimizer without parameters and state; where else it has a parameter, it has the other one."""
    own = {name: value for name, value in vars(optimizer).items() if name not in REPLACED}
    twin = object.__new__(type(optimizer))
    twin.__dict__ = copy.deepcopy(own, dict[int, Any](tensor_of)) | {name: OrderedDict() for name in HOOKS}
    twin.param_groups, twin.state = [], defaultdict(dict)
    return twin


def settings_of(group: Mapping[str, Any]) -> dict[str, Any]:
    """Return a group without its parameters."""
    return {name: value for name, value in group.items() if name not in ("params", "param_names")}


def _moving(settings: dict[str, Any]) -> dict[str, Any]:
    """Return a copy with a rate that moves something: at 0, where a warm-up begins, all optimizers look alike."""
    rate = {"lr": 0.1} if isinstance(settings.get("lr"), float | int) else {}
    return copy.deepcopy(settings) | rate


def _states(state: Mapping[str, Any], real: Tensor, sample: Sample) -> dict[Tensor, dict[str, Any]]:
    """Return what a fresh optimizer knows of a parameter for each tensor of a sample."""

    def like(value: Any, one: Tensor) -> Any:
        if isinstance(value, Tensor) and value.shape == real.shape and value.numel():
            return torch.full_like(one, float(value.flatten()[0]), requires_grad=False)
        return copy.deepcopy(value)

    return {one: {key: like(value, one) for key, value in state.items()} for one in sample}
