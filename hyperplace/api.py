"""The composer: the one place that knows the order of the steps.

capture -> profile -> build -> partition -> place -> generate. Every function here takes finished values and returns a
new one; `run` does the chain up to the plan and keeps everything in between, with the seconds each step took.
"""

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from hyperplace.errors import BalanceError, FileError, HyperplaceError, PartitionerError, UsageError
from hyperplace.files.plan import parse_plan, plan_text
from hyperplace.files.profile import cache_path, parse_profile, profile_text
from hyperplace.files.write import read_text, write_text
from hyperplace.portfolio import NAMES, OnProgress, search
from hyperplace.steps.build import build
from hyperplace.steps.partition import partition as _partition
from hyperplace.values.comparison import Comparison, ComparisonRow
from hyperplace.values.graph import Graph
from hyperplace.values.hypergraph import Hypergraph
from hyperplace.values.partition import Partition
from hyperplace.values.plan import COSTS, GRAINS, Plan, Settings
from hyperplace.values.profile import Profile

if TYPE_CHECKING:
    from torch import nn

    from hyperplace.runtime import Program, Trainer
    from hyperplace.runtime.weights import AverageFactory, OptimizerFactory, SchedulerFactory

__all__ = [
    "Placement",
    "build",
    "capture",
    "compare",
    "compile",
    "generate",
    "load_plan",
    "partition",
    "place",
    "profile",
    "run",
    "run_grains",
    "save_plan",
]

OnLayer = Callable[[int, int, str], None]  # done, total, name
T = TypeVar("T")


def capture(model: "nn.Module", sample: Any) -> Graph:
    """Return the layers of a model for a sample input: a tensor of shape (rows, channels, ...) or a tuple of them."""
    from hyperplace.steps.capture import capture as step

    return step(model, sample)


def profile(
    graph: Graph,
    *,
    costs: str = "measured",
    batch: int = 32,
    device: str = "cpu",
    threads: int | None = None,
    use_cache: bool = True,
    on_layer: OnLayer | None = None,
) -> Profile:
    """Return what every layer costs for a batch: measured here (and remembered), or counted FLOPs."""
    if batch < 1:
        raise UsageError(f"batch {batch} is less than 1; give the rows of a mini-batch")
    if costs not in COSTS:
        raise UsageError(f"costs {costs!r} are unknown; choose one of {', '.join(COSTS)}")
    if costs == "flops":
        from hyperplace.steps.profile.flops import count_flops

        return count_flops(graph, batch)
    return _measured(graph, batch, device, threads, use_cache=use_cache, on_layer=on_layer)


def _measured(
    graph: Graph, batch: int, device: str, threads: int | None, *, use_cache: bool, on_layer: OnLayer | None
) -> Profile:
    from hyperplace.steps.profile.measure import measure

    path = cache_path(graph, batch, device, threads)
    if use_cache and path.exists():
        with suppress(FileError):  # a broken cache is worth no more than none
            return parse_profile(read_text(path), str(path))
    measured = measure(graph, batch, device=device, threads=threads, on_layer=on_layer)
    with suppress(FileError):  # a cache that cannot be written only costs the next run its time
        write_text(path, profile_text(measured))
    return measured


def partition(
    hypergraph: Hypergraph, k: int, imbalance: float, *, partitioner: str = "kahypar", seed: int = 0
) -> Partition:
    """Return a partition of the hypergraph into k parts, none heavier than (1 + imbalance) x the average."""
    return _partition(hypergraph, k, imbalance, partitioner=partitioner, seed=seed)


@dataclass(frozen=True)
class Placement:
    """Everything one run made, from the graph to the plan, and the seconds of each step."""

    graph: Graph
    profile: Profile
    hypergraph: Hypergraph
    partition: Partition
    plan: Plan
    seconds: dict[str, float] = field(compare=False)


def run(
    model: "nn.Module",
    sample: Any,
    settings: Settings,
    *,
    given_profile: Profile | None = None,
    read_partition: Callable[[Hypergraph], Partition] | None = None,
    time_limit_s: float = 20.0,
    on_layer: OnLayer | None = None,
    on_progress: OnProgress = lambda text: None,
) -> Placement:
    """Take a model all the way to its plan.

    `given_profile` replaces the profile step; `read_partition` replaces the partitioner and may name another k. For
    `time_limit_s` and `on_progress` see portfolio.search.
    """
    from hyperplace.steps.place import place as place_step

    if settings.partitioner not in NAMES and read_partition is None:
        raise UsageError(f"partitioner {settings.partitioner!r} is unknown; choose one of {', '.join(NAMES)}")
    clock = _Clock()
    graph = clock.timed("capture", lambda: capture(model, sample))
    costs = given_profile or clock.timed(
        "profile", lambda: profile(graph, costs=settings.costs, batch=settings.batch, on_layer=on_layer)
    )
    if read_partition:
        blocks, rows = settings.blocks, settings.row_blocks
        hypergraph = build(graph, costs, grain=settings.grain, blocks=blocks, fc=settings.fc, row_blocks=rows)
        found = read_partition(hypergraph)
        settings = replace(settings, k=found.num_parts)
    else:
        hypergraph, found = clock.timed(
            "partition",
            lambda: search(graph, costs, settings, time_limit_s=time_limit_s, on_progress=on_progress),
        )
    plan = clock.timed("place", lambda: place_step(graph, hypergraph, found, settings))
    return Placement(graph, costs, hypergraph, found, plan, clock.seconds)


def run_grains(
    model: "nn.Module",
    sample: Any,
    settings: Settings,
    *,
    given_profile: Profile | None = None,
    time_limit_s: float = 20.0,
    on_layer: OnLayer | None = None,
    on_progress: OnProgress = lambda text: None,
) -> tuple[Placement, ...]:
    """Take a model to its plan in every grain, and return those that succeed, the least volume of training first.

    A plan over its limit comes after all others. The settings' own grain does not matter; the rest is as for run.
    """
    placements: list[Placement] = []
    faults: list[HyperplaceError] = []
    for grain in ("hybrid",) if settings.partitioner == "dataparallel" else GRAINS:
        known = placements[0].profile if placements else given_profile
        try:
            placements.append(
                run(
                    model,
                    sample,
                    replace(settings, grain=grain),
                    given_profile=known,
                    time_limit_s=time_limit_s,
                    on_layer=on_layer,
                    on_progress=lambda text, grain=grain: on_progress(f"{grain}: {text}"),  # type: ignore[misc]
                )
            )
        except (BalanceError, PartitionerError) as fault:
            faults.append(fault)
    if not placements:
        raise faults[0]
    return tuple(sorted(placements, key=lambda p: (not p.plan.metrics.feasible, p.plan.metrics.training_volume_bytes)))


class _Clock:
    """The seconds of named steps."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def timed(self, step: str, work: Callable[[], T]) -> T:
        start = time.perf_counter()
        result = work()
        self.seconds[step] = time.perf_counter() - start
        return result


def place(
    model: "nn.Module",
    sample: Any,
    *,
    k: int = 4,
    imbalance: float = 0.1,
    grain: str = "coarse",
    partitioner: str = "auto",
    costs: str = "flops",
    batch: int = 32,
    blocks: int | None = 64,
    fc: str = "neurons",
    seed: int = 0,
    row_blocks: int = 8,
    time_limit_s: float = 20.0,
) -> Plan:
    """Return the plan that places a model on k parts, with its metrics; grain "auto" tries all and takes the best.

    >>> plan = hyperplace.place(model, sample, k=4, imbalance=0.1)
    """
    name = type(model).__name__
    words = (partitioner, costs, batch, blocks, fc, seed, row_blocks)
    settings = Settings(name, k, imbalance, GRAINS[0] if grain == "auto" else grain, *words)
    if grain == "auto":
        return run_grains(model, sample, settings, time_limit_s=time_limit_s)[0].plan
    return run(model, sample, settings, time_limit_s=time_limit_s).plan


@dataclass(frozen=True)
class Method:
    """A row of the comparison: a partitioner on a grain; `limited` where it obeys an imbalance."""

    name: str
    grain: str
    partitioner: str
    limited: bool = False


METHODS = (
    Method("layer-wise", "coarse", "layerwise"),
    Method("filter-wise horizontal", "coarse", "horizontal"),
    Method("filter-wise incremental", "coarse", "incremental"),
    Method("channel-wise incremental", "fine", "incremental"),
    Method("coarse", "coarse", "kahypar", limited=True),
    Method("fine", "fine", "kahypar", limited=True),
    Method("auto", "coarse", "auto", limited=True),
    Method("auto fine", "fine", "auto", limited=True),
    Method("hybrid", "hybrid", "auto", limited=True),
    Method("data parallelism", "hybrid", "dataparallel"),
)
METHOD_NAMES = tuple(method.name for method in METHODS)


def compare(
    model: "nn.Module",
    sample: Any,
    *,
    k: Sequence[int] = (2, 4, 8),
    imbalance: Sequence[float] = (0.1,),
    methods: Sequence[str] = METHOD_NAMES,
    costs: str = "flops",
    batch: int = 32,
    blocks: int | None = 64,
    fc: str = "neurons",
    seed: int = 0,
    time_limit_s: float = 20.0,
    name: str = "",
    on_layer: OnLayer | None = None,
    on_row: Callable[[ComparisonRow], None] | None = None,
) -> Comparison:
    """Return what every method needs for every k and imbalance: the thesis's tables with our numbers."""
    name = name or type(model).__name__
    if unknown := sorted(set(methods) - set(METHOD_NAMES)):
        raise UsageError(f"method {unknown[0]!r} is unknown; choose among {', '.join(METHOD_NAMES)}")
    graph = capture(model, sample)
    costed = profile(graph, costs=costs, batch=batch, on_layer=on_layer)
    rows = []
    for num_parts in k:
        for method in (method for method in METHODS if method.name in methods):
            for limit in imbalance if method.limited else imbalance[:1]:
                words = (method.grain, method.partitioner, costs, batch, blocks, fc, seed)
                settings = Settings(name, num_parts, limit, *words)
                rows.append(compare_row(method, graph, costed, settings, time_limit_s))
                if on_row:
                    on_row(rows[-1])
    return Comparison(name, batch, costs, blocks, fc, graph.parameter_bytes, tuple(rows))


def compare_row(
    method: Method, graph: Graph, costs: Profile, settings: Settings, time_limit_s: float = 20.0
) -> ComparisonRow:
    """Return one method's row; one that cannot meet the limit has no figures and says why."""
    from hyperplace.steps.place import place as place_step

    clock = _Clock()
    limit = settings.imbalance if method.limited else None
    try:
        hypergraph, found = clock.timed("partition", lambda: search(graph, costs, settings, time_limit_s=time_limit_s))
    except (BalanceError, PartitionerError) as fault:
        return ComparisonRow.failed(method.name, settings, limit, graph.parameter_bytes, str(fault))
    plan = place_step(graph, hypergraph, found, settings)
    return ComparisonRow.of(method.name, plan, limit, clock.seconds["partition"])


def place_graph(graph: Graph, costs: Profile, settings: Settings, *, time_limit_s: float = 20.0) -> Plan:
    """Return the plan of a model that is captured and profiled already."""
    from hyperplace.steps.place import place as place_step

    hypergraph, found = search(graph, costs, settings, time_limit_s=time_limit_s)
    return place_step(graph, hypergraph, found, settings)


def baselines(placement: Placement) -> list[ComparisonRow]:
    """Return what the simple methods would need in the plan's place."""
    settings, grain = placement.plan.settings, placement.plan.settings.grain
    methods = [method for method in METHODS if method.grain == grain and not method.limited]
    if grain == "fine":
        methods += [replace(method, grain="fine") for method in METHODS[:2]]
    if grain == "hybrid":
        methods += METHODS[:3]
    return [
        compare_row(
            method,
            placement.graph,
            placement.profile,
            replace(settings, partitioner=method.partitioner, grain=method.grain),
        )
        for method in methods
    ]


def grain_rows(placements: Sequence[Placement]) -> list[ComparisonRow]:
    """Return what each grain needs, for those after the first."""
    return [
        ComparisonRow.of(p.plan.settings.grain, p.plan, p.plan.settings.imbalance, p.seconds["partition"])
        for p in placements[1:]
    ]


def generate(model: "nn.Module", plan: Plan, *, sample: Any = None) -> str:
    """Return the program that runs a plan of the model, as Python text; `sample` as for compile."""
    from hyperplace.steps.generate import generate as step

    return step(capture(model, _sample(model, plan, sample)), plan)


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

    runnable = program(capture(model, _sample(model, plan, sample)), plan)
    pieces = micro_batches or (micro_batches_for(model, plan) if schedule == "sync" else 1)
    settings = RunSettings(schedule, in_flight, pieces, seed, tuple(devices), threads, check_nan, record)
    training = Training(optimizer, scheduler, average, clip_norm, stash)
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


def save_plan(plan: Plan, path: str | Path) -> None:
    """Write the plan as JSON; the file appears whole or not at all."""
    write_text(path, plan_text(plan))


def load_plan(path: str | Path) -> Plan:
    """Read a plan file; a broken one gives an error that says where. Nothing in it is executed."""
    return parse_plan(read_text(path), str(path))
