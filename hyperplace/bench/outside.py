"""What others offer for several hosts: torch's DistributedDataParallel and its pipelining, and the cuts for the latter.

Both get every mini-batch whole on every rank, as our own trainer does, and take their share of it.
"""

import copy
import math
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from hyperplace.values.graph import Graph
from hyperplace.values.profile import Profile

Loss = Callable[[Any, Tensor], Tensor]
OptimizerOf = Callable[[Any], torch.optim.Optimizer]


class DataParallel:
    """DistributedDataParallel: every rank has the whole model and an equal share of the rows."""

    def __init__(self, model: nn.Module, optimizer: OptimizerOf, loss: Loss) -> None:
        self._model = nn.parallel.DistributedDataParallel(model.train(), gradient_as_bucket_view=True)
        self._optimizer, self._loss = optimizer(model.parameters()), loss

    def step(self, x: Tensor, y: Tensor) -> Tensor:
        """Train on this rank's rows, and return their loss."""
        rank, world = dist.get_rank(), dist.get_world_size()
        self._optimizer.zero_grad(set_to_none=True)
        loss = self._loss(self._model(x.chunk(world)[rank]), y.chunk(world)[rank])
        loss.backward()  # type: ignore[no-untyped-call]
        self._optimizer.step()
        return loss.detach()


class Pipeline:
    """torch.distributed.pipelining: every rank has one stage, and micro-batches go through them."""

    def __init__(
        self, model: nn.Module, optimizer: OptimizerOf, loss: Loss, *, way: str, cuts: Sequence[int], micro_batches: int
    ) -> None:
        from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe

        self._rank, world = dist.get_rank(), dist.get_world_size()
        modules = [module for _, module in modules_in_a_row(model)]
        start, stop = (0, *cuts, len(modules))[self._rank : self._rank + 2]
        own = nn.Sequential(*modules[start:stop]).train()
        stage = PipelineStage(own, self._rank, world, torch.device("cpu"))
        kind = {"gpipe": ScheduleGPipe, "1f1b": Schedule1F1B}[way]
        self._schedule = kind(stage, micro_batches, loss_fn=loss)
        self._optimizer, self._is_last = optimizer(own.parameters()), self._rank == world - 1

    def step(self, x: Tensor, y: Tensor) -> Tensor | None:
        """Train on a mini-batch; the last rank gets its loss."""
        losses: list[Tensor] = []
        inputs = (x,) if self._rank == 0 else ()
        target = y if self._is_last else None
        self._optimizer.zero_grad(set_to_none=True)
        self._schedule.step(*inputs, target=target, losses=losses, return_outputs=False)
        self._optimizer.step()
        return torch.stack(losses).mean().detach() if self._is_last else None


def modules_in_a_row(model: nn.Module, path: str = "") -> Iterator[tuple[str, nn.Module]]:
    """Yield what nested nn.Sequentials call one after the other, with names; anything else is one module."""
    if not isinstance(model, nn.Sequential):
        yield path, model
        return
    for name, child in model._modules.items():  # named_children leaves out what is called twice
        assert child is not None
        yield from modules_in_a_row(child, f"{path}.{name}" if path else name)


def stage_cuts(
    model: nn.Module, sample: Tensor, graph: Graph, costs: Profile, *, k: int, bits_per_s: float | None
) -> tuple[int, ...] | None:
    """Return where to cut the model into k stages so that the slowest is as fast as can be; None where that cannot be.

    A stage takes what its layers cost, and what its borders send and receive where seconds and a rate are known.
    """
    modules = list(modules_in_a_row(copy.deepcopy(model)))  # a forward pass changes batch norms
    if len(modules) < k:
        return None
    work = [_work_of(name, graph, costs) for name, _ in modules]
    scale = 1e6 * 8 / bits_per_s if bits_per_s and costs.unit == "us" else 0.0
    # Forward and backward: a map and its gradient.
    borders = [2 * scale * num_bytes for num_bytes in _border_bytes(modules, sample, costs.batch)]
    learns = [any(parameter.requires_grad for parameter in module.parameters()) for _, module in modules]
    return balanced_cuts(work, borders, learns, k)


def _work_of(name: str, graph: Graph, costs: Profile) -> float:
    """Return what the layers of a module cost together."""
    own = (layer for layer in graph.layers if f"{layer.name}.".startswith(f"{name}."))
    return sum(layer.num_filters * costs[layer.name].filter_work for layer in own)


def _border_bytes(modules: Sequence[tuple[str, nn.Module]], sample: Tensor, batch: int) -> list[float]:
    """Return the bytes between each module and the next, for a mini-batch."""
    x, found = sample, []
    with torch.no_grad():
        for _, module in modules:
            x = module(x)
            found.append(x.numel() * x.element_size() * batch / len(sample))
    return found[:-1]


def balanced_cuts(
    work: Sequence[float], borders: Sequence[float], learns: Sequence[bool], k: int
) -> tuple[int, ...] | None:
    """Return the k-1 cuts whose dearest stage is cheapest; every stage needs something to learn, or an update fails."""
    sums, number = (0.0, *accumulate(work)), len(work)

    def cost(start: int, stop: int) -> float:
        if not any(learns[start:stop]):
            return math.inf
        ends = (borders[start - 1] if start else 0.0) + (borders[stop - 1] if stop < number else 0.0)
        return sums[stop] - sums[start] + ends

    # best[n] is the dearest stage of the first n modules in so many stages, and its cuts.
    best: list[tuple[float, tuple[int, ...]]] = [(cost(0, stop), ()) for stop in range(number + 1)]
    for _ in range(k - 1):
        best = [
            min(
                ((max(best[cut][0], cost(cut, stop)), (*best[cut][1], cut)) for cut in range(stop)),
                default=(math.inf, ()),
            )
            for stop in range(number + 1)
        ]
    dearest, cuts = best[number]
    return cuts if math.isfinite(dearest) else None
