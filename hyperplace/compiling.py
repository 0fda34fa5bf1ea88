"""From a plan to what runs it: the program as text, and a trainer."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from hyperplace.planning import graph_for
from hyperplace.values.graph import Graph
from hyperplace.values.plan import Plan

if TYPE_CHECKING:
    from torch import nn

    from hyperplace.runtime import Program, Trainer
    from hyperplace.runtime.weights import AverageFactory, OptimizerFactory, SchedulerFactory


def generate(model: "nn.Module", plan: Plan, *, sample: Any = None) -> str:
    """Return the program that runs a plan of the model, as Python text; `sample` as for compile."""
    from hyperplace.steps.generate import generate as step

    return step(graph_for(plan.settings, model, _sample(model, plan, sample)), plan)


def program(graph: Graph, plan: Plan) -> "Program":
    """Return the plan of a captured model as a program that a Trainer runs."""
    from hyperplace.runtime import load_program
    from hyperplace.steps.generate import generate as step

    return load_program(step(graph, plan))


def compile(
    model: "nn.Module",
    plan: Plan,
    *,
    optimizer: "OptimizerFactory",
    loss: Callable[..., Any],
    schedule: str = "async",
    in_flight: int = 4,
    micro_batches: int | None = None,
    scheduler: "SchedulerFactory | None" = None,
    average: "AverageFactory | None" = None,
    clip_norm: float | None = None,
    clip_part_norm: float | None = None,
    stash: bool = True,
    devices: Sequence[str] = (),
    threads: int | None = None,
    seed: int = 0,
    check_nan: bool = False,
    record: bool = False,
    sample: Any = None,
) -> "Trainer":
    """Return a trainer that runs a plan of the model: a thread per part, its weights taken from the model.

    `optimizer`, `scheduler` (stepped after every update) and `average` (see torch.optim.swa_utils.AveragedModel)
    are called once for each part. `sample` is needed only where inputs are not floating point.

    >>> with hyperplace.compile(model, plan, optimizer=lambda ps: SGD(ps, lr=0.01), loss=F.cross_entropy) as trainer:
    ...     for x, y in loader:
    ...         trainer.step(x, y)
    ...     model.load_state_dict(trainer.state_dict())
    """
    from hyperplace.runtime import RunSettings, Trainer, Training

    runnable = program(graph_for(plan.settings, model, _sample(model, plan, sample)), plan)
    pieces = micro_batches or (micro_batches_for(model, plan) if schedule == "sync" else 1)
    settings = RunSettings(schedule, in_flight, pieces, seed, tuple(devices), threads, check_nan, record)
    training = Training(optimizer, scheduler, average, clip_norm, clip_part_norm, stash)
    return Trainer(runnable, model.state_dict(), training=training, loss=loss, settings=settings)


def _sample(model: "nn.Module", plan: Plan, sample: Any) -> Any:
    """Return inputs of the planned shapes, in the model's own precision: nothing is computed with them."""
    import torch

    if sample is not None:
        return sample
    dtype = next((p.dtype for p in model.parameters() if p.is_floating_point()), torch.float32)
    device = next((p.device for p in model.parameters()), torch.device("cpu"))
    return tuple(torch.empty(plan.settings.batch, *shape, dtype=dtype, device=device) for shape in plan.inputs)


def micro_batches_for(model: "nn.Module", plan: Plan) -> int:
    """Return as many micro-batches as parts, or one where a batch norm's statistics would differ."""
    from torch.nn.modules.batchnorm import _BatchNorm

    has_norms = any(isinstance(module, _BatchNorm) for module in model.modules())
    return 1 if has_norms else min(plan.settings.k, plan.settings.batch)
