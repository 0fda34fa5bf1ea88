"""What a part learns with, from the user's factories: each called once per part, and believed only after a look."""

import inspect
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from torch import nn
from torch.optim import Optimizer

from hyperplace.errors import UsageError
from hyperplace.runtime.trial import Kind, Trial, kinds_of, settings_of, try_out

if TYPE_CHECKING:
    from hyperplace.runtime.weights import Training, Weights

Named = tuple[str, nn.Parameter]


def check_factory(name: str, factory: Any, example: str) -> None:
    """Refuse what was made already where something that makes it for every part is wanted."""
    if isinstance(factory, type) or (callable(factory) and not isinstance(factory, nn.Module)):
        return
    raise UsageError(
        f"{name} is {type(factory).__name__}, but every part makes its own; give a function, such as {name}={example}"
    )


def made_optimizer(training: "Training", named: Sequence[Named]) -> Optimizer:
    """Return a part's optimizer; it must have all of the part's parameters and no others."""
    made = training.optimizer(list(named) if training.named_parameters else [one for _, one in named])
    if not isinstance(made, Optimizer):
        raise UsageError(f"optimizer returned {type(made).__name__} instead of a torch.optim.Optimizer")
    name = type(made).__name__
    found = {id(one) for group in made.param_groups for one in group["params"]}
    if strangers := found - {id(one) for _, one in named}:
        raise UsageError(
            f"optimizer returned {name} with {len(strangers)} parameters it was not given; make it of its argument, "
            "which is the part's own parameters, and not of model.parameters()"
        )
    if left_out := [path for path, one in named if id(one) not in found]:
        raise UsageError(
            f"optimizer returned {name} without {left_out[0]}; to leave a parameter as it is, call "
            "requires_grad_(False) on it before the model is placed"
        )
    if _needs_arguments(made.step):
        raise UsageError(
            f"{name} wants a closure that computes the loss again, which a split model has not; give another"
        )
    return made


def made_scheduler(factory: Callable[[Optimizer], Any], optimizer: Optimizer) -> Any:
    """Return the schedule of a part's learning rates; it is stepped after every update, without arguments."""
    made = factory(optimizer)
    if not hasattr(made, "step") or _needs_arguments(made.step):  # as ReduceLROnPlateau needs a metric
        raise UsageError(
            f"scheduler returned {type(made).__name__}, which cannot step by itself after every update; give one that "
            "goes by the number of updates, such as lambda optimizer: StepLR(optimizer, 30 * batches_per_epoch)"
        )
    return made


def _needs_arguments(step: Callable[..., Any]) -> bool:
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    parameters = inspect.signature(step).parameters.values()
    return any(one.default is inspect.Parameter.empty and one.kind in kinds for one in parameters)


def check_optimizers(parts: Mapping[int, "Weights"], num_learning: int) -> None:
    """Refuse optimizers that do something else to the pieces of a model than to the whole.

    `num_learning` is how many parts have weights of their own, here and in other processes.
    """
    optimizers = {number: weights.optimizer for number, weights in parts.items() if weights.optimizer}
    trials: dict[str, Trial] = {}
    for number, optimizer in optimizers.items():
        kind_of = kinds_of(optimizer)
        known = repr((type(optimizer), [settings_of(group) for group in optimizer.param_groups], set(kind_of.values())))
        trial = trials[known] = trials.get(known) or _tried(optimizer)
        name = type(optimizer).__name__
        if trial.couples and num_learning > 1:
            raise UsageError(
                f"{name} lets one parameter's update depend on the others, but {num_learning} parts have some each; "
                "give an optimizer that treats every parameter by itself, or place with k=1 or "
                "partitioner='server'"
            )
        _check_slices(number, parts[number], name, {one: kind in trial.mixed for one, kind in kind_of.items()})


def _check_slices(number: int, weights: "Weights", name: str, is_mixed: dict[nn.Parameter, bool]) -> None:
    for attribute, piece in weights.owned.items():
        parameter = weights.parameters[attribute]
        if is_mixed[parameter] and tuple(parameter.shape) != piece.shape:
            raise UsageError(
                f"{name} does not update element by element, but part {number} has only a slice of {piece.name}; give "
                "one that does, such as SGD or Adam, or place with partitioner='layerwise' or 'server-greedy', which "
                "keep parameters whole"
            )


def _tried(optimizer: Optimizer) -> Trial:
    try:
        return try_out(optimizer)
    except Exception as fault:  # the user's own code, which may not like small tensors
        warnings.warn(
            f"{type(optimizer).__name__} could not be tried on small tensors ({type(fault).__name__}: {fault}); make "
            "sure that it updates every element by itself, or parts learn something else than the whole model would",
            stacklevel=2,
        )
        return Trial(frozenset[Kind](), couples=False)
