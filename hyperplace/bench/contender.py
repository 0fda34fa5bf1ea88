"""Who takes part: the unsplit model on one thread and on k, compiled for one part, and every plan, sync and async."""

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from hyperplace import api
from hyperplace.errors import BalanceError, PartitionerError, UsageError
from hyperplace.runtime import Runnable, RunSettings, Trainer, Training
from hyperplace.training.learner import Learner, PlainLearner, intra_op_threads
from hyperplace.values.bench import ASYNC, PLAIN, SYNC, TOGETHER, BenchRow, Paces
from hyperplace.values.cluster import Cluster, Device
from hyperplace.values.cluster import Host as ClusterHost
from hyperplace.values.graph import Graph
from hyperplace.values.methods import COARSE, DATA_PARALLEL, FINE, HYBRID, INCREMENTAL, LAYERWISE, PER_SHARD, Kind
from hyperplace.values.plan import Plan, Settings
from hyperplace.values.prediction import Prediction
from hyperplace.values.profile import Profile
from hyperplace.values.program import Program

LR, MOMENTUM = 1e-3, 0.9
PROFILE_ROUNDS = 3  # a plan by one layer that was disturbed would be judged for what it is not
COMPILED: Kind = ("compiled, k=1", "coarse", "single")
PLANS = (LAYERWISE, INCREMENTAL, COARSE, FINE, HYBRID, DATA_PARALLEL)


@dataclass(frozen=True)
class BenchSettings:
    """What to measure; a repeat trains on `steps` mini-batches once the pipe is full."""

    model: str
    k: int = 2
    batch: int = 16
    repeats: int = 5
    steps: int = 8
    imbalance: float = 0.02
    costs: str = "measured"
    in_flight: int = 4
    seed: int = 0
    time_limit_s: float = 20.0
    only: tuple[str, ...] = ()  # methods whose names have one of these words; all by default
    survive_every: int | None = None  # on hosts: also the plan by time with copies after so many updates

    def takes(self, method: str) -> bool:
        """Say whether a method is among those to be measured."""
        return not self.only or any(word.strip().lower() in method.lower() for word in self.only)

    def __post_init__(self) -> None:
        for name in ("repeats", "steps", "in_flight"):
            if getattr(self, name) < 1:
                raise UsageError(f"--{name.replace('_', '-')} {getattr(self, name)} is less than 1")
        if self.survive_every is not None and self.survive_every < 1:
            raise UsageError(f"--survive-every {self.survive_every} is less than 1")
        self.plan_settings("coarse", "auto", self.k)  # its own checks

    def plan_settings(self, grain: str, partitioner: str, k: int) -> Settings:
        return Settings(
            model=self.model,
            k=k,
            imbalance=self.imbalance,
            grain=grain,
            partitioner=partitioner,
            costs=self.costs,
            batch=self.batch,
            seed=self.seed,
        )


@dataclass(frozen=True)
class Contender:
    """A method that can be opened again and again, each time with the first weights."""

    row: BenchRow  # without figures yet; with a note if it cannot take part
    model: nn.Module
    program: Runnable | None = None
    settings: RunSettings | None = None

    @contextmanager
    def opened(self, *, record: bool = False) -> Iterator[Learner]:
        """Hand out what learns; its threads and memory are given back at the end of the block."""
        if self.program is None or self.settings is None:
            with intra_op_threads(self.row.num_threads):
                model = copy.deepcopy(self.model)
                yield PlainLearner(model, sgd(model.parameters()), functional.cross_entropy)
            return
        with Trainer(
            self.program,
            self.model.state_dict(),
            training=Training(sgd),
            loss=functional.cross_entropy,
            settings=replace(self.settings, record=record),
        ) as trainer:
            yield trainer


@dataclass(frozen=True)
class Planned:
    """A kind of plan with what runs it, or with the note that says why there is none."""

    name: str
    k: int
    plan: Plan | None = None
    program: Runnable | None = None
    micro_batches: int = 1  # of the sync schedule
    note: str = ""

    def row(self, schedule: str, settings: BenchSettings, cluster: Cluster | None = None) -> BenchRow:
        """Return the row of one schedule, without figures yet; parts are threads of one process by default."""
        row = BenchRow(self.name, schedule, self.k, 1, settings.batch, note=self.note)
        if self.plan is None or self.program is None:
            return row
        flow = self.flow(schedule, settings, cluster)
        return replace(
            row,
            predicted_bytes=self.plan.moved_in(flow.micro_batches).total(),
            predicted_us=predicted_us(self.program.program, flow),
        )

    def flow(self, schedule: str, settings: BenchSettings, cluster: Cluster | None = None) -> RunSettings:
        """Return how its mini-batches flow."""
        in_flight = settings.in_flight if self.k > 1 else 1
        pieces = self.micro_batches if schedule == SYNC else 1
        return RunSettings(schedule, in_flight, pieces, settings.seed, threads=1, cluster=cluster)


def contenders(
    model: nn.Module,
    graph: Graph,
    costs: Profile,
    settings: BenchSettings,
    on_progress: Callable[[str], None] = lambda text: None,
) -> list[Contender]:
    """Return all methods in the order of the table; a plan that cannot be made has rows that say why."""
    found = [
        Contender(plain_row(threads, settings, unsplit_us(graph, costs)), model)
        for threads in dict.fromkeys((1, settings.k))
    ]
    for planned in plans(graph, costs, settings, (COMPILED, *PLANS), on_progress):
        for schedule in (SYNC, ASYNC) if planned.name != COMPILED[0] else (ASYNC,):
            row, flow = planned.row(schedule, settings), planned.flow(schedule, settings)
            found.append(Contender(row, model, planned.program, flow))
    return found


def plain_row(threads: int, settings: BenchSettings, layers_us: float | None = None) -> BenchRow:
    """Return the row of the unsplit model, without figures yet; `layers_us` is what its layers take on one thread."""
    name = f"plain loop, {threads} thread{'s' if threads > 1 else ''}"
    return BenchRow(name, PLAIN, 1, threads, settings.batch, predicted_us=layers_us if threads == 1 else None)


def together_row(settings: BenchSettings, layers_us: float | None) -> BenchRow:
    """Return the row of the unsplit model on every host at the same time, each by itself."""
    return BenchRow(TOGETHER, PLAIN, settings.k, 1, settings.batch, predicted_us=layers_us)


def unsplit_us(graph: Graph, costs: Profile) -> float | None:
    """Return what all layers take for a mini-batch, where that was measured."""
    if costs.unit != "us":
        return None
    return sum(layer.num_filters * costs[layer.name].filter_work for layer in graph.layers)


def plans(
    graph: Graph,
    costs: Profile,
    settings: BenchSettings,
    kinds: Sequence[Kind],
    on_progress: Callable[[str], None],
) -> Iterator[Planned]:
    """Yield a plan of every kind; nobody is left out because its plan cannot be made."""
    for name, grain, partitioner in kinds:
        if not settings.takes(name):
            continue
        on_progress(f"planning {name}")
        wanted = settings.plan_settings(grain, partitioner, 1 if partitioner == "single" else settings.k)
        yield _planned(graph, costs, name, wanted, settings)
        if name == DATA_PARALLEL[0] and any(layer.filter_statistics_bytes for layer in graph.layers):
            apart = replace(wanted, batch_norm="per-shard")
            yield _planned(graph.without_statistics(), costs, PER_SHARD, apart, settings)


def _planned(graph: Graph, costs: Profile, name: str, wanted: Settings, settings: BenchSettings) -> Planned:
    try:
        plan = api.place_graph(graph, costs, wanted, time_limit_s=settings.time_limit_s)
    except (BalanceError, PartitionerError) as fault:
        return Planned(name, wanted.k, note=str(fault))
    return Planned(name, wanted.k, plan, api.runnable(graph, plan, costs), api.micro_batches_for(graph, plan))


def predicted_us(program: Program, flow: RunSettings, paces: Paces | None = None) -> float | None:
    """Return how long a mini-batch takes in a simulation, on the cluster or on threads that send at no cost.

    Work takes as many times as long as in the profile as the paces say, and messages what they take; the order is that
    of the run. Async: from one to the next, once the pipe is full. Sync: all its micro-batches, each with its share of
    the work, and the update.
    """
    if program.unit != "us":
        return None
    paces = paces or Paces()
    is_sync, cluster = flow.schedule == SYNC, flow.cluster
    order = api.schedule(program, flow.in_flight, is_sync=is_sync, cluster=cluster)
    here = cluster or Cluster((ClusterHost("here", (Device(),) * len(program.parts)),))

    def at_pace(some: Sequence[float]) -> Prediction:
        return api.predict(program, order, here.at_pace(some), micro_batches=flow.micro_batches if is_sync else None)

    found = at_pace(paces.together)
    if set(paces.together) != {paces.alone}:
        found = at_pace(paces.at(found.timeline.crowding))
    return 1e6 * found.seconds


def sgd(parameters: Any) -> torch.optim.Optimizer:
    """Return what everybody updates weights with."""
    return torch.optim.SGD(parameters, lr=LR, momentum=MOMENTUM)
